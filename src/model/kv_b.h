// kv_b_proj as attention multiplies with it. A checkpoint holds, head after head, W_UK [nope,
// latent] and W_UV [v, latent] in one matrix. W_UK is transposed, because absorption sums over its
// rows; W_UV stays where it is.
#pragma once

#include <vector>

#include "base/result.h"
#include "model/config.h"
#include "model/shard_plan.h"
#include "model/tensor_table.h"
#include "tensor/device.h"

namespace glint {

class ThreadPool;

struct KvSplitArgs {
  const ModelConfig& config;
  HeadRange heads;    // of which halves are made
  DType activations;  // that what cannot keep its format becomes
  ThreadPool& pool;
  std::vector<Buffer>& owned;  // what is no view of kv_b goes to new memory, added here
};

// Both halves of FP8 keep their codes wherever heads begin on a 32nd row; else they become numbers,
// as does W_UK of NVFP4, whose groups do not survive a transposition. Fails if there is no memory.
Status split_kv_b(const Weight& kv_b, const KvSplitArgs& args, KvHalves halves);

}  // namespace glint
