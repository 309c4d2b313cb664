// Regular expressions before they become grammars: of limited size, and for whole texts.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace glint {

// Whether an expression is small enough to compile: its repetitions, written out, are at most 5,000
// characters and classes.
Status check_expression_size(std::string_view expression);

// A pattern in ASCII that matches whole texts, for one (UTF-8) that is looked for in them; `filler`
// matches the rest.
std::string whole_text_pattern(std::string_view pattern, std::string_view filler = ".*");

}  // namespace glint
