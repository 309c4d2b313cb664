#include "backends/cuda/linear/choose_kernel.h"

namespace glint::cuda {

Kernel choose_kernel(const ProductShape& shape, int num_sms) {
  // Two thread blocks of eight rows share a multiprocessor's memory up to here.
  constexpr std::int64_t kMostForEight = 6400;
  const auto ceil_div = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const bool is_short = shape.k <= kMostForEight;
  if (shape.grouped) {
    // A group of more rows than the kernel's reads its weights again, from the L2 cache.
    const std::int64_t rows = shape.m / shape.matrices;
    if (rows <= 4 && is_short) return Kernel::kStream8;
    return rows <= 32 ? Kernel::kStream32 : Kernel::kTile;
  }
  if (shape.m <= 8 && is_short) return Kernel::kStream8;
  // Tiles read least from the L2 cache, once there are enough of them to go round.
  const std::int64_t tiles = ceil_div(shape.m, 64) * ceil_div(shape.n, 128) * shape.matrices;
  return tiles < 2 * num_sms ? Kernel::kStream32 : Kernel::kTile;
}

}  // namespace glint::cuda
