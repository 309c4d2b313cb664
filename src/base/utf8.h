// UTF-8.
//
// Text inside glint is valid UTF-8. Bytes from outside become so with `lossy_utf8`: each maximal
// part of an invalid sequence turns into one U+FFFD, as Rust's from_utf8_lossy, Python's
// errors="replace" and the WHATWG decoder do.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace glint {

bool is_valid_utf8(std::string_view text);

// Bytes of the character that `text` (not empty) begins with; 0 if it is not valid.
std::size_t first_character(std::string_view text);

// Appends `bytes` with invalid parts replaced. Returns how many bytes it took: all of them if
// `last`, else all but an incomplete character at the end.
std::size_t append_lossy_utf8(std::string& out, std::string_view bytes, bool last = true);
std::string lossy_utf8(std::string_view bytes);

// The code point at `at` of valid UTF-8; moves `at` behind it.
char32_t next_code_point(std::string_view text, std::size_t& at);

// Whether `byte` of valid UTF-8 goes on with a character that began before it.
inline bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Where the last character of `text` (not empty) begins; 0 if none begins there.
std::size_t last_character(std::string_view text);

void append_utf8(std::string& out, char32_t c);

}  // namespace glint
