// Rows in groups, as grouped products have them, cut into tiles: which rows are a tile's.
#pragma once

#include <algorithm>

#include "backends/cuda/reduce.cuh"

namespace glint::cuda {

// Rows [first, end) of out, of one matrix; none where end is first.
struct RowTile {
  int matrix = 0;
  std::int64_t first = 0, end = 0;
};

// Tile `number` of groups [offsets[i], offsets[i + 1]), which are cut into tiles of kRows of their
// own, numbered through. The same in every lane.
template <int kRows>
__device__ RowTile find_group_tile(const std::int32_t* offsets, int groups, std::int64_t number) {
  const int lane = threadIdx.x % kWarp;
  const int each = (groups + kWarp - 1) / kWarp;  // groups of a lane
  const int low = min(lane * each, groups), high = min(low + each, groups);
  const auto tiles_of = [&](int group) {
    return (offsets[group + 1] - offsets[group] + kRows - 1) / kRows;
  };
  std::int64_t own = 0;
  for (int group = low; group < high; ++group) own += tiles_of(group);
  std::int64_t end = own;  // of this lane's tiles, by a scan over the lanes
#pragma unroll
  for (int d = 1; d < kWarp; d *= 2) {
    const std::int64_t other = __shfl_up_sync(kAllLanes, end, d);
    if (lane >= d) end += other;
  }
  const unsigned beyond = __ballot_sync(kAllLanes, number < end);
  if (!beyond) return {};
  const int holder = __ffs(static_cast<int>(beyond)) - 1;
  int group = low;
  std::int64_t tile = number - (end - own);
  if (lane == holder) {
    for (; tile >= tiles_of(group); ++group) tile -= tiles_of(group);
  }
  group = __shfl_sync(kAllLanes, group, holder);
  tile = __shfl_sync(kAllLanes, tile, holder);
  const std::int64_t first = offsets[group] + tile * kRows;
  return {group, first, min(first + kRows, std::int64_t{offsets[group + 1]})};
}

// Tiles that launches must make room for, whatever the rows of each group.
inline std::int64_t most_group_tiles(std::int64_t rows, std::int64_t groups, int tile) {
  return rows / tile + std::min(rows, groups);
}

}  // namespace glint::cuda
