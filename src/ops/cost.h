// What an op costs and how exact it has to be: shared by every contract in this folder.
#pragma once

namespace glint {

// Least work of one call: arithmetic, and memory traffic with every operand moved once. For
// rooflines.
struct OpCost {
  double flops = 0;
  double bytes = 0;
};

// Largest relative L2 error |out - reference| / |reference| over a whole output, by the dtype of
// the activations.
struct OpTolerance {
  double f32 = 0;
  double bf16 = 0;
};

}  // namespace glint
