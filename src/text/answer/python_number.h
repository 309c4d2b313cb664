// Numbers in text as Python's int() and float() read them: blanks around them, single underscores
// between digits, a sign, the decimal digits of any script.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace glint {

// `text` without the blanks around it and the underscores between digits (`hex`: or letters), its
// decimal digits as ASCII. Nothing if an underscore stands anywhere else.
std::optional<std::string> clean_python_number(std::string_view text, bool hex = false);

// int(text): an integer of any size, up to the 4300 digits that Python reads.
std::optional<Json> parse_python_int(std::string_view text);

// float(text), which may be infinite or not a number.
std::optional<double> parse_python_float(std::string_view text);

// int(value) of a finite number.
Json truncated(double value);

}  // namespace glint
