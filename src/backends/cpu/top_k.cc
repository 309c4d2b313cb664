#include "backends/cpu/top_k.h"

#include <bit>
#include <vector>

#include "base/check.h"

namespace glint::cpu {
namespace {

// An integer that orders as the score does.
std::uint32_t ordered(float score) {
  if (score != score) return 0;
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0f);  // -0.0 + 0.0 = 0.0
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// The k-th largest key, and in `above` how many are larger. A digit at a time, from the top; only
// the keys that share all digits so far go on.
std::uint32_t threshold(std::vector<std::uint32_t> keys, std::int64_t k, std::int64_t& above) {
  constexpr int kShifts[] = {21, 10, 0}, kBits[] = {11, 11, 10};
  std::uint32_t found = 0;
  above = 0;
  for (int digit = 0; digit < 3; ++digit) {
    const std::uint32_t mask = (1u << kBits[digit]) - 1;
    std::vector<std::int64_t> count(mask + 1);
    for (const std::uint32_t key : keys) ++count[key >> kShifts[digit] & mask];
    std::uint32_t value = mask;
    while (above + count[value] < k) above += count[value--];
    found |= value << kShifts[digit];
    std::size_t kept = 0;
    for (const std::uint32_t key : keys) {
      keys[kept] = key;
      kept += (key >> kShifts[digit] & mask) == value;
    }
    keys.resize(kept);
  }
  return found;
}

}  // namespace

void top_k(std::span<const float> scores, std::span<std::int32_t> out) {
  const auto k = static_cast<std::int64_t>(out.size());
  GLINT_CHECK(out.size() <= scores.size(), "more wanted than there are");
  if (k == 0) return;
  std::vector<std::uint32_t> keys(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) keys[i] = ordered(scores[i]);
  std::int64_t above = 0;
  const std::uint32_t least = threshold(keys, k, above);
  std::int64_t ties = k - above;
  std::size_t n = 0;
  for (std::size_t i = 0; n < out.size(); ++i) {
    if (keys[i] < least) continue;
    if (keys[i] == least && ties-- <= 0) continue;
    out[n++] = static_cast<std::int32_t>(i);
  }
}

}  // namespace glint::cpu
