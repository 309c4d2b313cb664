// select_keys: the DSA lightning indexer. Scores every visible cached key cheaply, keeps the top k.
//
// For token t of sequence s at position p, over the keys i = 0 .. p of s (its own key is already
// written):
//
//   exact caches   I[i] = sum_h w[t,h] * max(0, dot(q[t,h], key(i))) * Hi^-0.5 * D^-0.5
//   kFp8 cache     I[i] = sk(i) * sum_h v[t,h] * max(0, dot(q8[t,h], k8(i)))
//
// in f32, where k8(i) and sk(i) are the cached codes and their scale, q8[t,h] = e4m3(q[t,h] / sq)
// with sq = index_scale(max |q[t,h]|) (tensor/fp8.h), and v[t,h] = w[t,h] * sq * D^-0.5 * Hi^-0.5.
//
// A row of padding (position -1) gets -1 throughout. Else out[t] = the slots of the min(k, p + 1)
// keys with the largest I, in ascending order of i, then -1. Ties go to the smaller i, and -0.0
// equals 0.0: weights may be negative and exact ties at 0 are common, so the tie rule is part of
// the result. Where p < k every visible key is selected and nothing is scored. Where scores are
// NaN, which keys are selected is open, but they are distinct and visible. Memory for
// scores does not grow with T x context.
//
// Source: DeepSeek-V3.2 (arXiv 2512.02556), equation 1; FP8 as in its inference code.
#pragma once

#include "ops/cost.h"
#include "ops/kv_layout.h"

namespace glint {

struct SelectKeysArgs {
  Tensor q = {};        // [T, Hi, D] f32 or bf16, rotated; may be empty where every p < k
  Tensor weights = {};  // [T, Hi] f32: w, unscaled; empty with q
  BatchView batch = {};
  IndexCache cache = {};
  Tensor out = {};  // [T, k] i32, written
};
void check(const SelectKeysArgs& args);
OpCost cost(const SelectKeysArgs& args);  // reads `positions`: host memory only
OpCost cost(const SelectKeysArgs& args, const Assume& assume);

// Two backends may order near-equal scores differently: at least this share of the selected keys
// must agree, and every key in which they differ must score within `slack` (relative to the row's
// largest |I|) of the row's threshold.
struct SelectKeysTolerance {
  double overlap = 0.98;
  double slack = 1e-5;
};

}  // namespace glint
