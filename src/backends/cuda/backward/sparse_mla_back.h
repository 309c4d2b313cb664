// The parts of sparse_mla_back: for some tokens, the gradients of queries, and those of keys, a row
// for each selected key of a token.
#pragma once

#include "backends/cuda/backward/temporaries.h"

namespace glint::cuda {

// Writes to.dkeys, nothing where a key's index is -1. Adds to dq_latent and dq_rope.
void launch_queries_back(const SparseMlaBackArgs& args, const SparseMlaBackTemporaries& to,
                         const Gpu& gpu);

// launch_queries_back() on the tensor cores: of bf16 queries over bf16 latents of 512 + 64, with
// gradients and weights of keys rounded to bf16.
bool is_queries_back_512(const SparseMlaBackArgs& args, const Arch& arch);
void launch_queries_back_512(const SparseMlaBackArgs& args, const Tensor& dkeys, const Gpu& gpu);

}  // namespace glint::cuda
