// Numbers in text as Python's int() and float() read them: blanks around them, single underscores
// between digits, a sign, the decimal digits of any script.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace glint {

// int(text): an integer of any size, up to the 4300 digits that Python reads.
std::optional<Json> parse_python_int(std::string_view text);

// float(text), which may be infinite or not a number.
std::optional<double> parse_python_float(std::string_view text);

// int(value) of a finite number.
Json truncated(double value);

}  // namespace glint
