// Kernels of the backward passes (ops/backward.h has the contracts). Nothing is added by atomics:
// bits depend on shapes and on what is routed or selected alone.
#pragma once

#include "backends/cuda/gpu.h"
#include "ops/backward.h"
#include "tensor/arena.h"

namespace glint::cuda {

// rows of `x`, [.., D] f32 of rank 2 or 3, become zeros; only the first *limit, if that is given.
void launch_zero(const Tensor& x, const std::int32_t* limit, const Gpu& gpu);

// to[places[r]] += from[r], in the order of r.
struct AddAtArgs {
  Tensor places = {};                   // [R] i32 in [-1, S), of any shape; nothing where -1
  const std::int32_t* limit = nullptr;  // of the device: only r < *limit
  Tensor from = {};                     // [R, D] f32; rows may be strided
  Tensor to = {};                       // [S, D] f32; rows may be strided
};
void launch_add_at(const AddAtArgs& args, Arena& scratch, const Gpu& gpu);

void launch_embed_back(const EmbedBackArgs& args, Arena& scratch, const Gpu& gpu);
void launch_gather_rows_back(const GatherRowsBackArgs& args, Arena& scratch, const Gpu& gpu);
void launch_add_back(const AddBackArgs& args, const Gpu& gpu);
void launch_silu_mul_back(const SiluMulBackArgs& args, const Gpu& gpu);
void launch_rope_back(const RopeBackArgs& args, const Gpu& gpu);
void launch_rms_norm_back(const RmsNormBackArgs& args, Arena& scratch, const Gpu& gpu);
void launch_linear_back(const LinearBackArgs& args, const Gpu& gpu);
void launch_grouped_linear_back(const GroupedLinearBackArgs& args, Arena& scratch, const Gpu& gpu);
void launch_per_head_back(const PerHeadBackArgs& args, const Gpu& gpu);
void launch_write_latent_back(const WriteLatentBackArgs& args, const Gpu& gpu);
void launch_sparse_mla_back(const SparseMlaBackArgs& args, Arena& scratch, const Gpu& gpu);
void launch_route_back(const RouteBackArgs& args, const Gpu& gpu);
void launch_combine_back(const CombineBackArgs& args, const Gpu& gpu);
void launch_log_probs(const LogProbsArgs& args, const Gpu& gpu);
void launch_cross_entropy(const CrossEntropyArgs& args, const Gpu& gpu);

}  // namespace glint::cuda
