// Characters as Python's str sees them: whitespace, case, and code points as the unit of length and
// position. All texts are valid UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace glint::jinja {

std::size_t count_code_points(std::string_view text);

// The byte position of code point `index`, which is at most the length of `text`.
std::size_t byte_offset(std::string_view text, std::size_t index);

// str.isspace() and str.isprintable() of one character.
bool is_space(char32_t c);
bool is_printable(char32_t c);
bool is_word(char32_t c);       // \w of its regular expressions
int decimal_digit(char32_t c);  // str.isdecimal(): the digit in any script, else -1

std::string to_lower(std::string_view text);
std::string to_upper(std::string_view text);
char32_t to_title(char32_t c);  // of a character whose upper case is one character

// The first or last code point of a text that is not empty.
char32_t first_code_point(std::string_view text);
char32_t last_code_point(std::string_view text);

// Without whitespace (Python's) or, if given, the characters of `chars`, on the chosen side.
std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);
inline std::string_view strip(std::string_view text) { return strip_right(strip_left(text)); }
std::string_view strip_left(std::string_view text, std::string_view chars);
std::string_view strip_right(std::string_view text, std::string_view chars);

// Positions in bytes, npos if not found. Linear in the length of `text` whatever `needle` is.
std::size_t find_text(std::string_view text, std::string_view needle, std::size_t from = 0);
std::size_t find_last_text(std::string_view text, std::string_view needle);

}  // namespace glint::jinja
