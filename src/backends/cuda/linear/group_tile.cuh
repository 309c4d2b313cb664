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

// Groups [offsets[i], offsets[i + 1]), which are cut into tiles of kRows of their own, numbered
// through. A warp keeps how many tiles there are up to each of its lanes' groups.
template <int kRows>
class GroupTiles {
 public:
  GroupTiles() = default;
  __device__ GroupTiles(const std::int32_t* offsets, int groups) : offsets_(offsets) {
    const int lane = threadIdx.x % kWarp;
    const int each = (groups + kWarp - 1) / kWarp;  // groups of a lane
    low_ = min(lane * each, groups);
    const int high = min(low_ + each, groups);
    for (int group = low_; group < high; ++group) own_ += tiles_of(group);
    end_ = own_;  // of this lane's tiles, by a scan over the lanes
#pragma unroll
    for (int d = 1; d < kWarp; d *= 2) {
      const int other = __shfl_up_sync(kAllLanes, end_, d);
      if (lane >= d) end_ += other;
    }
  }
  __device__ int count() const { return __shfl_sync(kAllLanes, end_, kWarp - 1); }
  // The same in every lane, all of which call it.
  __device__ RowTile at(std::int64_t number) const {
    const unsigned beyond = __ballot_sync(kAllLanes, number < end_);
    if (!beyond) return {};
    const int holder = __ffs(static_cast<int>(beyond)) - 1;
    int group = low_, tile = static_cast<int>(number) - (end_ - own_);
    if (static_cast<int>(threadIdx.x % kWarp) == holder) {
      for (; tile >= tiles_of(group); ++group) tile -= tiles_of(group);
    }
    group = __shfl_sync(kAllLanes, group, holder);
    tile = __shfl_sync(kAllLanes, tile, holder);
    const std::int64_t first = offsets_[group] + std::int64_t{tile} * kRows;
    return {group, first, min(first + kRows, std::int64_t{offsets_[group + 1]})};
  }

 private:
  __device__ int tiles_of(int group) const {
    return (offsets_[group + 1] - offsets_[group] + kRows - 1) / kRows;
  }
  const std::int32_t* offsets_ = nullptr;
  int low_ = 0, own_ = 0, end_ = 0;
};

// Tiles that launches must make room for, whatever the rows of each group.
inline std::int64_t most_group_tiles(std::int64_t rows, std::int64_t groups, int tile) {
  return rows / tile + std::min(rows, groups);
}

}  // namespace glint::cuda
