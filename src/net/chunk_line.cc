#include "net/chunk_line.h"

#include <algorithm>

namespace glint {
namespace {

constexpr std::size_t kMaxLine = 4096;

// Characters that leave no doubt about where a line ends.
bool is_plain(std::string_view line) {
  return std::all_of(line.begin(), line.end(),
                     [](char c) { return (c >= 0x20 && c < 0x7f) || c == '\t'; });
}

void skip_blanks(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
}

// Takes a token off the front of `text`.
bool skip_token(std::string_view& text) {
  const std::size_t size = std::min(text.find_first_of(" \t;=\""), text.size());
  text.remove_prefix(size);
  return size > 0;
}

// Skips "...", in which a backslash stands before any character.
bool skip_quoted(std::string_view& text) {
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      text.remove_prefix(i + 1);
      return true;
    }
  }
  return false;
}

// ;name ;name=value ;name="a value" (RFC 9112, 7.1.1)
bool are_extensions(std::string_view text) {
  while (!text.empty()) {
    skip_blanks(text);
    if (!text.starts_with(';')) return false;
    text.remove_prefix(1);
    skip_blanks(text);
    if (!skip_token(text)) return false;
    std::string_view value = text;
    skip_blanks(value);
    if (!value.starts_with('=')) continue;
    value.remove_prefix(1);
    skip_blanks(value);
    if (!(value.starts_with('"') ? skip_quoted(value) : skip_token(value))) return false;
    text = value;
  }
  return true;
}

}  // namespace

ChunkLine look_at_chunk_line(std::string_view rest, bool first) {
  const std::size_t begin = first ? 0 : 2;
  if (!first && rest.substr(0, 2) != std::string_view("\r\n").substr(0, rest.size())) {
    return {.state = ChunkLine::State::kBad};
  }
  const std::size_t end = rest.find("\r\n", begin);
  if (end > kMaxLine && rest.size() >= kMaxLine + 2) return {.state = ChunkLine::State::kBad};
  if (end == rest.npos) return {};
  const std::string_view line = rest.substr(begin, end - begin);
  const std::string_view size = line.substr(0, line.find_first_not_of("0123456789abcdefABCDEF"));
  if (size.empty() || !is_plain(line) || !are_extensions(line.substr(size.size()))) {
    return {.state = ChunkLine::State::kBad};
  }
  const bool last = size.find_first_not_of('0') == size.npos;
  return {.state = ChunkLine::State::kWhole, .last = last, .end = end, .size = size};
}

Trailers look_at_trailers(std::string_view rest) {
  for (std::size_t begin = 0;;) {
    const std::size_t end = rest.find("\r\n", begin);
    if (end == rest.npos) return {};
    const std::string_view line = rest.substr(begin, end - begin);
    begin = end + 2;
    if (line.empty()) return {.state = ChunkLine::State::kWhole, .bytes = begin};
    const std::size_t colon = line.find(':');
    if (colon == line.npos || colon == 0 || line.substr(0, colon).find_first_of(" \t") < colon ||
        !is_plain(line)) {
      return {.state = ChunkLine::State::kBad};
    }
  }
}

}  // namespace glint
