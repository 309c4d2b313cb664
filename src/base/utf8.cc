#include "base/utf8.h"

#include <cstdint>
#include <cstring>

namespace glint {
namespace {

struct Utf8Step {
  enum Kind { kChar, kInvalid, kIncomplete };
  Kind kind;
  std::size_t size;  // bytes of the character, of the invalid part, or of the beginning that the
                     // text ends in
};

// Reads the start of `text` (not empty). kIncomplete: all of it is the beginning of a character.
Utf8Step utf8_step(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {Utf8Step::kChar, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8Step::kInvalid, 1};
  const std::size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte is narrower after these: no overlong forms, no surrogates, nothing past
  // U+10FFFF.
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (std::size_t i = 1; i < size; ++i) {
    if (i == text.size()) return {Utf8Step::kIncomplete, i};
    const bool fits = i == 1 ? byte(1) >= low && byte(1) <= high : (byte(i) & 0xC0) == 0x80;
    if (!fits) return {Utf8Step::kInvalid, i};
  }
  return {Utf8Step::kChar, size};
}

}  // namespace

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    std::uint64_t eight = 0x80;
    if (text.size() >= 8) std::memcpy(&eight, text.data(), 8);
    if ((eight & 0x8080808080808080) == 0) {  // ASCII
      text.remove_prefix(8);
      continue;
    }
    const Utf8Step step = utf8_step(text);
    if (step.kind != Utf8Step::kChar) return false;
    text.remove_prefix(step.size);
  }
  return true;
}

std::size_t first_character(std::string_view text) {
  const Utf8Step step = utf8_step(text);
  return step.kind == Utf8Step::kChar ? step.size : 0;
}

std::size_t append_lossy_utf8(std::string& out, std::string_view bytes, bool last) {
  std::size_t at = 0, copied = 0;
  while (at < bytes.size()) {
    const Utf8Step step = utf8_step(bytes.substr(at));
    if (step.kind == Utf8Step::kIncomplete && !last) break;
    if (step.kind != Utf8Step::kChar) {
      out.append(bytes, copied, at - copied).append("\xEF\xBF\xBD");
      copied = at + step.size;
    }
    at += step.size;
  }
  out.append(bytes, copied, at - copied);
  return at;
}

std::string lossy_utf8(std::string_view bytes) {
  std::string out;
  append_lossy_utf8(out, bytes);
  return out;
}

char32_t next_code_point(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const char32_t lead = byte(0);
  char32_t c = lead;
  if (lead < 0x80) {
    at += 1;
  } else if (lead < 0xE0) {
    c = (lead & 0x1F) << 6 | (byte(1) & 0x3F);
    at += 2;
  } else if (lead < 0xF0) {
    c = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    at += 3;
  } else {
    c = (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    at += 4;
  }
  return c;
}

std::size_t last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && is_continuation(text[at])) --at;
  return at;
}

void append_utf8(std::string& out, char32_t c) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    tail(0);
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    tail(6), tail(0);
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    tail(12), tail(6), tail(0);
  }
}

}  // namespace glint
