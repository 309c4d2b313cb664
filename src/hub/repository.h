// Repositories of a Hugging Face hub, their files, and the patterns that choose among files.
// Everything that a hub says becomes a path only after it was looked at here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace glint {

struct Repository {
  std::string type = "model";  // or "dataset"
  std::string id = {};         // "zai-org/GLM-5"
  std::string revision = "main";

  std::string folder() const;  // of a cache: "models--zai-org--GLM-5"
  std::string api() const;     // "/api/models/zai-org/GLM-5"
  // "/zai-org/GLM-5/resolve/COMMIT/path%20of%20file"
  std::string file_target(std::string_view commit, std::string_view path) const;
};

// `text` as parse_hub_id() says it.
Result<Repository> parse_repository(std::string_view text, std::string type,
                                    const std::string& revision);

// A file of a commit. Its hash is its name in a cache.
struct HubFile {
  std::string path;          // "sub/model-00001-of-00002.safetensors"
  std::int64_t size = 0;     // bytes
  std::string sha256 = {};   // of large files, else empty
  std::string git_oid = {};  // of the others: SHA-1 of "blob SIZE\0" and the bytes

  const std::string& hash() const { return sha256.empty() ? git_oid : sha256; }
};

// The files of one page of a tree's listing. Fails on a path that would leave its folder, and on
// what is no hash: both become names of files here.
Result<std::vector<HubFile>> read_tree(const Json& page);

bool is_commit(std::string_view text);  // 40 hex digits

// Chooses as the hub's own tools do: with `include`, only paths that match one of its patterns;
// never paths that match one of `exclude`. Patterns are those of glob_matches(); "folder/" is
// all in it.
bool is_chosen(const std::string& path, const std::vector<std::string>& include,
               const std::vector<std::string>& exclude);

}  // namespace glint
