#include "net/chunk_line.h"

#include <algorithm>

namespace glint {
namespace {

constexpr std::size_t kMaxLine = 4096;

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
  const auto plain = [](char c) { return ((c >= 0x20 && c < 0x7f) || c == '\t') && c != '"'; };
  if (line.empty() || !std::all_of(line.begin(), line.end(), plain)) {
    return {.state = ChunkLine::State::kBad};
  }
  const std::string_view size = line.substr(0, line.find_first_not_of("0123456789abcdefABCDEF"));
  const bool last = !size.empty() && size.find_first_not_of('0') == size.npos;
  return {.state = ChunkLine::State::kWhole, .last = last, .end = end};
}

}  // namespace glint
