#include "rl/rewards/boxed.h"

namespace glint {

std::optional<std::string_view> last_boxed(std::string_view text) {
  constexpr std::string_view kBoxed = "\\boxed";
  const std::size_t at = text.rfind(kBoxed);
  if (at == text.npos) return {};
  const std::size_t begin = at + kBoxed.size();
  if (begin == text.size() || text[begin] != '{') return {};
  int depth = 0;
  for (std::size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return text.substr(begin + 1, i - begin - 1);
  }
  return {};
}

}  // namespace glint
