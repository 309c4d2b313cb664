// MODEL on a command line: a directory, or an id of the Hugging Face hub that its cache holds.
#pragma once

#include <string>

#include "base/result.h"

namespace glint {

// The directory of `model`. An id such as "zai-org/GLM-5" (or "zai-org/GLM-5@revision", a branch,
// tag or commit; main otherwise) is looked up below `hf_hub_cache`:
// models--zai-org--GLM-5/refs/main names the snapshot. Nothing is downloaded.
Result<std::string> resolve_model(const std::string& model, const std::string& hf_hub_cache);

}  // namespace glint
