#include "rl/advantage.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace glint {
namespace {

constexpr double kLeastDifference = 1e-8;  // of rewards that differ

struct Moments {
  double mean = 0, deviation = 0;
};

Moments moments_of(std::span<const double> values) {
  Moments m;
  if (values.empty()) return m;
  const auto n = static_cast<double>(values.size());
  for (const double value : values) m.mean += value;
  m.mean /= n;
  double squares = 0;
  for (const double value : values) squares += (value - m.mean) * (value - m.mean);
  if (n > 1) m.deviation = std::sqrt(squares / (n - 1));
  return m;
}

}  // namespace

std::vector<double> group_advantages(std::span<const double> rewards, bool by_deviation) {
  std::vector<double> advantages(rewards.size());
  if (!rewards_differ(rewards)) return advantages;
  const Moments m = moments_of(rewards);
  const double divisor = by_deviation ? m.deviation + 1e-6 : 1;
  for (std::size_t i = 0; i < rewards.size(); ++i) advantages[i] = (rewards[i] - m.mean) / divisor;
  return advantages;
}

bool rewards_differ(std::span<const double> rewards) {
  if (rewards.empty()) return false;
  // Not by their deviation: the mean of equal rewards is one of them but for rounding, which is
  // nothing to learn from, and grows with them.
  const auto [least, most] = std::ranges::minmax(rewards);
  return most - least > kLeastDifference;
}

double pass_rate(int n, int right, int k) {
  GLINT_CHECK(k >= 1 && k <= n && right >= 0 && right <= n, "k of n answers");
  double none = 1;  // of the k is right: C(n - right, k) / C(n, k)
  for (int i = 0; i < k; ++i) none *= std::max(0.0, static_cast<double>(n - right - i) / (n - i));
  return 1 - none;
}

double overlong_penalty(int num_tokens, int max_tokens, int margin, double penalty) {
  const int over = num_tokens - (max_tokens - margin);
  return -penalty * std::clamp(static_cast<double>(over) / margin, 0.0, 1.0);
}

}  // namespace glint
