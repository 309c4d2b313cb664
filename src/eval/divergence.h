// Comparison of two models' logits of the same position.
#pragma once

#include <span>

#include "base/types.h"

namespace glint {

// In nats; f64 sums over the whole vocabulary. Equal logits give a divergence of exactly zero.
struct RowDivergence {
  double kl = 0;                 // KL(reference || model) = sum p_ref * (ln p_ref - ln p)
  double ref_nll = 0, nll = 0;   // -ln of the probability that each gave the token that came
  TokenId ref_top = 0, top = 0;  // most likely tokens; ties to the lower id
};

// `target` is the token that came. Not finite where the logits are not.
RowDivergence compare_rows(std::span<const float> ref, std::span<const float> logits,
                           TokenId target);

}  // namespace glint
