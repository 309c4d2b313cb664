#include "text/tokenizer/tokenizer_bytes.h"

#include <array>

#include "base/utf8.h"

namespace glint {
namespace {

constexpr int kLetters = 0x144;

struct Alphabet {
  std::array<std::uint16_t, 256> letter{};
  std::array<std::int16_t, kLetters> byte{};

  constexpr Alphabet() {
    for (auto& b : byte) b = -1;
    int next = 0x100;
    for (int b = 0; b < 256; ++b) {
      const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      letter[static_cast<std::size_t>(b)] = static_cast<std::uint16_t>(printable ? b : next++);
      byte[letter[static_cast<std::size_t>(b)]] = static_cast<std::int16_t>(b);
    }
  }
};

constexpr Alphabet kAlphabet;

}  // namespace

char32_t letter_of_byte(unsigned char byte) { return kAlphabet.letter[byte]; }

std::string bytes_to_letters(std::string_view bytes) {
  std::string out;
  out.reserve(2 * bytes.size());
  for (const char c : bytes) append_utf8(out, letter_of_byte(static_cast<unsigned char>(c)));
  return out;
}

std::optional<std::string> letters_to_bytes(std::string_view letters) {
  std::string out;
  out.reserve(letters.size());
  for (std::size_t at = 0; at < letters.size();) {
    const char32_t c = next_code_point(letters, at);
    if (c >= kLetters || kAlphabet.byte[c] < 0) return std::nullopt;
    out += static_cast<char>(kAlphabet.byte[c]);
  }
  return out;
}

}  // namespace glint
