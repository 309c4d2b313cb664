// Device ops that move rows or work on single elements, and rope.
#pragma once

#include "backends/cuda/gpu.h"
#include "ops/elementwise.h"
#include "ops/rope.h"

namespace glint::cuda {

void launch_embed(const EmbedArgs& args, const Gpu& gpu);
void launch_gather_rows(const GatherRowsArgs& args, const Gpu& gpu);
void launch_add(const AddArgs& args, const Gpu& gpu);
void launch_silu_mul(const SiluMulArgs& args, const Gpu& gpu);
void launch_rope(const RopeArgs& args, const Gpu& gpu);
// Two of them in one launch, of the same rows, types and positions.
struct RopePair {
  RopeArgs one = {}, other = {};
};
void launch_rope_pair(const RopePair& pair, const Gpu& gpu);

}  // namespace glint::cuda
