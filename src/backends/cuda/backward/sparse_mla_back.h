// The parts of sparse_mla_back: for some tokens, the gradients of queries, and those of keys, a row
// for each selected key of a token.
#pragma once

#include "backends/cuda/gpu.h"
#include "ops/backward/attention.h"
#include "tensor/arena.h"

namespace glint::cuda {

// Writes dkeys [T * k, latent + rope] f32: row t * k + j of key j of token t, nothing where its
// index is -1. Adds to dq_latent and dq_rope.
void launch_queries_back(const SparseMlaBackArgs& args, const Tensor& dkeys, Arena& scratch,
                         const Gpu& gpu);

// The same on the tensor cores: of bf16 queries over bf16 latents of 512 + 64, with gradients and
// weights of keys rounded to bf16.
bool is_queries_back_512(const SparseMlaBackArgs& args, const Arch& arch);
void launch_queries_back_512(const SparseMlaBackArgs& args, const Tensor& dkeys, const Gpu& gpu);

}  // namespace glint::cuda
