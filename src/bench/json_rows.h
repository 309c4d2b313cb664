// Files of several JSON values.
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace glint {

// The values of a JSON list, or of text with one in each line; another value is the only one.
Result<Json::Array> parse_rows(std::string_view text);

}  // namespace glint
