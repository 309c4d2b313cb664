// select_keys and sparse_mla on the device.
#pragma once

#include "backends/cuda/gpu.h"
#include "base/result.h"
#include "ops/blocks/weights.h"
#include "ops/select_keys.h"
#include "ops/sparse_mla.h"

namespace glint::cuda {

// Whether a thread block can hold what the kernels need of a model of these sizes.
Status supports_select_keys(const AttentionDims& dims, const Arch& arch);
Status supports_sparse_mla(const AttentionDims& dims, const Arch& arch);

void launch_select_keys(const SelectKeysArgs& args, const Gpu& gpu);
// Scratch of both ops, `scores`, has kScoreBytes.
inline constexpr std::int64_t kScoreBytes = 64 << 20;
// select_keys of bf16 queries with keys in bf16 or fp8, of GLM-5's sizes: "top_keys.cuh".
bool is_top_keys(const SelectKeysArgs& args);
void launch_top_keys(const SelectKeysArgs& args, float* scores, const Gpu& gpu);

void launch_sparse_mla(const SparseMlaArgs& args, float* scores, const Gpu& gpu);

}  // namespace glint::cuda
