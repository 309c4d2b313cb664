// Texts that are shown, but not whole.
#pragma once

#include <string>
#include <string_view>

namespace glint {

// `text`, or its first `max_bytes` and "..."; no character of UTF-8 is cut.
inline std::string cut_text(std::string_view text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  while (max_bytes > 0 && (text[max_bytes] & 0xc0) == 0x80) --max_bytes;
  return std::string(text.substr(0, max_bytes)) + "...";
}

}  // namespace glint
