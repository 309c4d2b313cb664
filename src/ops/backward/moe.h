// Backward passes of route and combine (ops/backward.h has the rules). permute has none: which
// experts see a token is no number.
#pragma once

#include "ops/moe.h"

namespace glint {

// With s_j = sigmoid(logits[ids[j]]), S = sum_j s_j + 1e-20, c the scaling factor and g = dweights:
//
//   ds_j = c (g_j - sum_i g_i s_i / S) / S      if norm_topk_prob, else c g_j
//   dlogits[ids[j]] += ds_j s_j (1 - s_j)
//
// Groups and the bias only choose, and get no gradient. Nothing where ids are -1.
struct RouteBackArgs {
  RouteArgs op = {};     // op.weights is not read
  Tensor dweights = {};  // [T, k] f32, read and zeroed
  Tensor dlogits = {};   // [T, E] f32, added to
};
void check(const RouteBackArgs& args);
OpCost cost(const RouteBackArgs& args);

//   dy[places[t,j]] += weights[t,j] g[t];  dweights[t,j] += dot(g[t], y[places[t,j]])
//   dshared[t] += g[t]
struct CombineBackArgs {
  CombineArgs op = {};   // op.out is not read
  Tensor dout = {};      // [T, D] f32, read and zeroed
  Tensor dy = {};        // [T * k, D] f32, added to
  Tensor dweights = {};  // [T, k] f32, added to
  Tensor dshared = {};   // [T, D] f32, added to; empty where there was no `shared`
};
void check(const CombineBackArgs& args);
OpCost cost(const CombineBackArgs& args);

inline constexpr double kMoeBackTolerance = 4e-6;

}  // namespace glint
