// GPT-2's byte alphabet: each byte is one printable letter, so that any bytes can be a token's
// text. Bytes that are printable in Latin-1 are themselves; the others are U+0100, U+0101, ... in
// order.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace glint {

// The letter of `byte`: a code point under 0x144.
char32_t letter_of_byte(unsigned char byte);

// Each byte of `bytes` as its letter, in UTF-8.
std::string bytes_to_letters(std::string_view bytes);

// The bytes that `letters` (valid UTF-8) stand for; nothing if one is not of the alphabet.
std::optional<std::string> letters_to_bytes(std::string_view letters);

}  // namespace glint
