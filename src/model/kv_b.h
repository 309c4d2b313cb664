// kv_b_proj as attention multiplies with it. A checkpoint holds, head after head, W_UK [nope,
// latent] and W_UV [v, latent] in one matrix. W_UK is transposed, because absorption sums over its
// rows; W_UV stays where it is.
#pragma once

#include <vector>

#include "base/result.h"
#include "model/config.h"
#include "model/model_partition.h"
#include "model/tensor_table.h"
#include "tensor/device.h"

namespace glint {

class ThreadPool;

// The halves' formats, by that of kv_b_proj. FP8 keeps its codes wherever heads begin on a 32nd
// row; else both become numbers, as does W_UK of NVFP4, whose groups do not survive a
// transposition.
struct KvFormats {
  WeightFormat uk, uv;
  int side;  // of both halves' blocks along heads, if they are FP8
};
KvFormats kv_formats(WeightFormat stored, const ModelConfig& config, DType activations);

struct KvSplitArgs {
  const ModelConfig& config;
  HeadRange heads;    // of which halves are made
  DType activations;  // that what cannot keep its format becomes
  ThreadPool& pool;
  std::vector<Buffer>& owned;  // what is no view of kv_b goes to new memory, added here
};

// Fails if there is no memory.
Status split_kv_b(const Weight& kv_b, const KvSplitArgs& args, KvHalves halves);

}  // namespace glint
