// A repository of a hub to files here: in the cache that huggingface_hub keeps, or in a folder.
//
//   CACHE/models--zai-org--GLM-5/blobs/HASH                  the bytes, once
//   CACHE/models--zai-org--GLM-5/snapshots/COMMIT/PATH       -> ../../blobs/HASH
//   CACHE/models--zai-org--GLM-5/refs/main                   the commit
//
// Links are made when every file is there: a snapshot that exists is whole, as far as it was asked
// for.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hub/hub_client.h"
#include "hub/multi_fetch.h"

namespace glint {

struct PullRequest {
  Repository repository;
  std::vector<std::string> files = {};                  // by name; empty: all
  std::vector<std::string> include = {}, exclude = {};  // patterns
  std::string cache_dir = {};
  std::string local_dir = {};  // if not empty: files lie here, and not in the cache
};

struct PullPlan {
  PullRequest request;
  std::string commit = {};
  std::vector<HubFile> files = {};  // that were chosen
  std::vector<FetchJob> jobs = {};  // those that are not here
  std::int64_t total_bytes = 0, missing_bytes = 0;
  std::string folder = {};  // where the files will lie: the snapshot, or local_dir
};

// Asks the hub, and looks at what is here. Fails if a name or every pattern matches nothing.
Result<PullPlan> plan_pull(HubClient& hub, PullRequest request);

// Fails if the disk has no room for what is missing.
Status check_room(const PullPlan& plan);

// Fetches what is missing, and makes the links. `on_bytes` as in MultiFetch.
Status run_pull(HubClient& hub, const PullPlan& plan, std::function<void(std::int64_t)> on_bytes);

}  // namespace glint
