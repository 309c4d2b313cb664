#include "backends/cuda/linear/choose_kernel.h"

namespace glint::cuda {

Kernel choose_kernel(const ProductShape& shape, const Arch& arch, int num_sms) {
  // Up to here rows of x leave room for many thread blocks in a multiprocessor's shared memory.
  constexpr std::int64_t kMostHeld = 3072;
  const auto ceil_div = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const bool has_cluster =
      arch.clusters && stream_bytes(32, slices_of(shape.k).steps) <= arch.shared_bytes;
  const Kernel some = has_cluster ? Kernel::kCluster32 : Kernel::kTile;
  if (!shape.aligned) return some;
  const Kernel few = shape.k <= kMostHeld ? Kernel::kHeld8 : Kernel::kPassed8;
  if (shape.grouped) {
    // A group of more rows than the kernel's reads its weights again, from the L2 cache.
    const std::int64_t rows = shape.m / shape.matrices;
    if (rows <= 4) return few;
    if (rows <= 32) return some;
    return arch.wgmma ? Kernel::kFlow : Kernel::kTile;
  }
  if (shape.m <= 8) return few;
  if (!arch.wgmma) return shape.m <= 32 ? some : Kernel::kTile;
  const std::int64_t tiles = ceil_div(shape.m, 128) * ceil_div(shape.n, 128) * shape.matrices;
  if (2 * tiles >= num_sms) return shape.m <= 32 ? some : Kernel::kFlow;
  if (shape.m <= 16) return some;
  return shape.m <= 64 ? Kernel::kHalfWide : Kernel::kWide;
}

}  // namespace glint::cuda
