// Temporaries of the launches of backward.h that take any, for as long as a Scope of their arena: a
// plan takes them as a launch does.
#pragma once

#include "backends/cuda/backward/backward.h"

namespace glint::cuda {

// To add `rows` rows at places below `places`.
struct AddAtTemporaries {
  AddAtTemporaries(std::int64_t rows, std::int64_t places, Arena& scratch);

  Tensor unsorted_keys, keys, unsorted_numbers, numbers;  // [rows] i32
  Tensor sort;                                            // bytes
};

struct RmsNormBackTemporaries {
  static constexpr int kTokens = 64;  // that one part is the sum of

  RmsNormBackTemporaries(const RmsNormBackArgs& args, Arena& scratch);

  Tensor scales;  // [T, 2] f32: of weight g, and of x
  Tensor parts;   // [T / kTokens, D] f32, of the weight's gradient, where it has one
};

// Empty where rows of x are those of out. add_at() comes within it.
struct GroupedLinearBackTemporaries {
  GroupedLinearBackTemporaries(const GroupedLinearBackArgs& args, Arena& scratch);

  Tensor dx;  // [R, in] f32: of the experts' rows
};

// For some tokens at a time. add_at() comes within it.
struct SparseMlaBackTemporaries {
  static std::int64_t most_tokens(const SparseMlaBackArgs& args, const Arch& arch);

  SparseMlaBackTemporaries(const SparseMlaBackArgs& args, std::int64_t tokens, const Arch& arch,
                           Arena& scratch);

  Tensor dkeys;  // [tokens * k, latent + rope] f32: row t * k + j of key j of token t
  Tensor p, ds;  // [tokens, H, k] f32, of plain kernels
};

}  // namespace glint::cuda
