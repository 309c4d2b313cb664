// Files of several JSON values.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"

namespace glint {

// The values of a JSON list, or of a file with one in each line; another value is the only one.
Result<Json::Array> read_rows(const std::string& path);

}  // namespace glint
