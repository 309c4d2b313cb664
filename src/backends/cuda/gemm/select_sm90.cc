#include "backends/cuda/gemm/select_sm90.h"

namespace glint::cuda {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

GemmConfig select_sm90(const GemmDesc& desc, int num_sms) {
  // One tile size is enough for what no model's shapes need.
  if (!desc.aligned) return {GemmTile::k64x64, false};
  // Decode reads weights at the speed of memory: many small thread blocks keep all SMs reading.
  if (desc.m <= 16) return {GemmTile::k16x32, true};
  // The largest tile reads least from the L2 cache, once there are enough of them to go round.
  const std::int64_t weight_rows = desc.epilogue == Epilogue::kSiluMul ? 2 * desc.n : desc.n;
  const std::int64_t tiles = ceil_div(desc.m, 128) * ceil_div(weight_rows, 128);
  return {tiles >= num_sms ? GemmTile::k128x128 : GemmTile::k64x64, true};
}

}  // namespace glint::cuda
