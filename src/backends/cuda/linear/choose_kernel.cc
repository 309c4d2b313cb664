#include "backends/cuda/linear/choose_kernel.h"

#include "base/ceil_div.h"

namespace glint::cuda {

Kernel choose_kernel(const ProductShape& shape, const Arch& arch, int num_sms) {
  const bool has_cluster =
      arch.clusters && stream_bytes(32, slices_of(shape.k).steps) <= arch.shared_bytes;
  const Kernel some = has_cluster ? Kernel::kCluster32 : Kernel::kTile;
  if (!shape.aligned) return some;
  if (shape.grouped) {
    // A group of more rows than the kernel's reads its weights again, from the L2 cache.
    const std::int64_t rows = shape.m / shape.matrices;
    if (rows <= 8) return Kernel::kFew8;
    if (rows <= 32) return some;
    return arch.wgmma ? Kernel::kFlow : Kernel::kTile;
  }
  // Thread blocks of a kernel whose tiles of out have so many rows and columns.
  const auto blocks = [&](std::int64_t rows, std::int64_t columns) {
    return ceil_div(shape.m, rows) * ceil_div(shape.n, columns) * shape.matrices;
  };
  const int columns = 16 * kStreamWarps / slices_of(shape.k).count;
  // The weights are read and decoded again for every eight rows. As long as two thread blocks a
  // multiprocessor do it all at once, that is faster than anything whose warps wait for others.
  if (shape.m <= 8 || blocks(8, columns) <= 2 * num_sms) return Kernel::kFew8;
  if (shape.m <= 32) return some;
  if (!arch.wgmma) return Kernel::kTile;
  if (2 * blocks(128, 128) >= num_sms) return Kernel::kFlow;
  if (shape.m <= 64) return Kernel::kHalfWide;
  const int slices = slices_of(shape.k).count;
  const bool take_turns = slices > 1 && blocks(128, 128) > clusters_at_once(num_sms, slices, 1);
  return take_turns ? Kernel::kWidePairs : Kernel::kWide;
}

}  // namespace glint::cuda
