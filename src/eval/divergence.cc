#include "eval/divergence.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace glint {

RowDivergence compare_rows(std::span<const float> ref, std::span<const float> logits,
                           TokenId target) {
  GLINT_CHECK(
      ref.size() == logits.size() && target >= 0 && static_cast<std::size_t>(target) < ref.size(),
      "two rows of one vocabulary");
  const auto ref_top = std::max_element(ref.begin(), ref.end());
  const auto top = std::max_element(logits.begin(), logits.end());
  // ln p = x - lse(x), so KL = sum p_ref (ref - x) + lse(x) - lse(ref).
  double ref_sum = 0, sum = 0, weighted = 0;
  for (std::size_t i = 0; i < ref.size(); ++i) {
    const double p = std::exp(static_cast<double>(ref[i]) - *ref_top);
    ref_sum += p;
    sum += std::exp(static_cast<double>(logits[i]) - *top);
    weighted += p * (static_cast<double>(ref[i]) - logits[i]);
  }
  const double ref_lse = *ref_top + std::log(ref_sum), lse = *top + std::log(sum);
  const double kl = weighted / ref_sum + lse - ref_lse;
  return {.kl = kl < 0 ? 0 : kl,  // of equal distributions, rounding may leave -1e-16
          .ref_nll = ref_lse - ref[target],
          .nll = lse - logits[target],
          .ref_top = static_cast<TokenId>(ref_top - ref.begin()),
          .top = static_cast<TokenId>(top - logits.begin())};
}

}  // namespace glint
