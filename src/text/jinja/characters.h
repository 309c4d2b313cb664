// Characters as Python's str sees them: classes, case, and code points as the unit of length and
// position. All texts are valid UTF-8.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "text/jinja/unicode_data.h"

namespace glint::jinja {

std::size_t count_code_points(std::string_view text);

// The byte position of code point `index`, which is at most the length of `text`.
std::size_t byte_offset(std::string_view text, std::size_t index);

// str.isspace(), str.isalpha() and so on of one character: in_class(kAlpha, c).
bool in_class(std::span<const CodePointRange> table, char32_t c);

// Is `text` not empty and all of it in the class?
bool all_in_class(std::span<const CodePointRange> table, std::string_view text);

std::string to_lower(std::string_view text);
std::string to_upper(std::string_view text);
std::string to_title(std::string_view text);        // str.title()
std::string to_capitalized(std::string_view text);  // str.capitalize()
std::string to_casefold(std::string_view text);
std::string swap_case(std::string_view text);
bool is_lower(std::string_view text);  // str.islower()
bool is_upper(std::string_view text);
bool is_title(std::string_view text);

// The last code point of a text that is not empty.
char32_t last_code_point(std::string_view text);

// Without whitespace (Python's) or, if given, the characters of `chars`, on the chosen sides.
std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);
inline std::string_view strip(std::string_view text) { return strip_right(strip_left(text)); }
std::string_view strip_left(std::string_view text, std::string_view chars);
std::string_view strip_right(std::string_view text, std::string_view chars);

// The bytes of the line break that `text` begins with ("\r\n" is one), 0 if none: str.splitlines().
std::size_t line_break_size(std::string_view text);

// Positions in bytes, npos if not found. Linear in the length of `text` whatever `needle` is.
std::size_t find_text(std::string_view text, std::string_view needle, std::size_t from = 0);
std::size_t find_last_text(std::string_view text, std::string_view needle);

}  // namespace glint::jinja
