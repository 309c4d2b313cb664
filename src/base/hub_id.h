// Ids of a Hugging Face hub, as a command line names them and as folders of its cache do. They
// become paths only after they were looked at here.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace glint {

struct HubId {
  std::string name;  // "zai-org/GLM-5"
  std::string revision = "main";
};

// `text` is "owner/name", "name", or one of them with "@revision": a branch, tag or commit.
// `revision`, if not empty, wins.
Result<HubId> parse_hub_id(std::string_view text, const std::string& revision = "");

// Whether `text` has the form of such an id, with an owner.
bool is_hub_id(std::string_view text);

// Whether `text` can be a part of an id or a revision: it leaves no folder.
bool is_hub_name(std::string_view text);

// A repository's folder in a cache: "models--zai-org--GLM-5". `type` is "model" or "dataset".
std::string hub_folder(std::string_view type, std::string_view name);

}  // namespace glint
