// The keywords of each type as the grammar compiler reads them.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace glint {

// Gives `schema`, a part of `root`, the types that its keywords are about, and says these keywords
// as grammar_schema.h has it.
Status prepare_types(Json& schema, const Json& root, const std::string& path,
                     std::string_view pattern_filler);

}  // namespace glint
