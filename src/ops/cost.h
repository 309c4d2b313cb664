// Cost and required exactness of an op: shared by every contract in this folder.
#pragma once

#include "tensor/weight.h"

namespace glint {

// Least work of one call: arithmetic, and memory traffic with every operand moved once. For
// rooflines.
struct OpCost {
  double flops = 0;
  double bytes = 0;
  // Parts of `bytes`; the rest is activations.
  double weight_bytes = 0;
  double cache_bytes = 0;

  OpCost& operator+=(const OpCost& other) {
    flops += other.flops;
    bytes += other.bytes;
    weight_bytes += other.weight_bytes;
    cache_bytes += other.cache_bytes;
    return *this;
  }
};

// Facts that costs depend on and only a batch's contents say: without them, and without a look at
// device memory, a cost is an expectation. Zeros: nothing is cached, and no expert chosen.
struct Assume {
  double visible = 0;    // keys that a token sees, its own included: the mean over the batch
  double sequences = 0;  // that the batch's tokens are of
  double longest = 0;    // keys that the last token of a sequence sees: the mean over sequences
  double experts = 0;    // matrices of a stack that some row of the batch goes through
  double rows = 0;       // rows that go through a stack's matrices in all
};

// Bytes of all elements of `x`; 0 if it is empty.
inline double bytes_of(const Tensor& x) { return static_cast<double>(x.size()) * size_of(x.dtype); }

// Largest relative L2 error |out - reference| / |reference| over a whole output, by the dtype of
// the result. No single element may be off by more than 8 times that (and one ulp of bf16) of
// itself + the output's root mean square.
//
// Where the contract allows one rounding to bf16, two kernels differ in the few elements whose f32
// values lie next to a tie, which is below 1e-4; a second rounding anywhere costs 8e-4.
struct OpTolerance {
  double f32 = 0;
  double bf16 = 0;
};

}  // namespace glint
