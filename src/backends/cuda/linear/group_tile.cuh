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
    const int each = (groups + kWarp - 1) / kWarp;  // groups of a lane
    low_ = min(static_cast<int>(threadIdx.x % kWarp) * each, groups);
    high_ = min(low_ + each, groups);
#pragma unroll 8
    for (int group = low_; group < high_; ++group) {
      own_ += tiles_of(offsets[group], offsets[group + 1]);
    }
    end_ = warp_prefix_sum(own_);
  }
  __device__ int count() const { return __shfl_sync(kAllLanes, end_, kWarp - 1); }
  // Tile `number`, or none; all lanes call it and get the same.
  __device__ RowTile at(std::int64_t number) const {
    const unsigned beyond = __ballot_sync(kAllLanes, number < end_);
    if (!beyond) return {};
    const int holder = __ffs(static_cast<int>(beyond)) - 1;
    const int high = __shfl_sync(kAllLanes, high_, holder);
    int group = __shfl_sync(kAllLanes, low_, holder);
    int before = __shfl_sync(kAllLanes, end_ - own_, holder);  // tiles
    // Each lane looks at one of the holder's groups.
    for (;; group += kWarp) {
      const int own_group = min(group + static_cast<int>(threadIdx.x % kWarp), high);
      const int begin = offsets_[own_group], end = offsets_[min(own_group + 1, high)];
      const int own = tiles_of(begin, end), upto = before + warp_prefix_sum(own);
      const unsigned found = __ballot_sync(kAllLanes, number < upto);
      if (!found) {
        before = __shfl_sync(kAllLanes, upto, kWarp - 1);
        continue;
      }
      const int lane = __ffs(static_cast<int>(found)) - 1;
      const std::int64_t tile = number - __shfl_sync(kAllLanes, upto - own, lane);
      const std::int64_t first = __shfl_sync(kAllLanes, begin, lane) + tile * kRows;
      const std::int64_t last = __shfl_sync(kAllLanes, end, lane);
      return {group + lane, first, min(first + kRows, last)};
    }
  }

 private:
  __device__ static int tiles_of(int begin, int end) { return (end - begin + kRows - 1) / kRows; }
  const std::int32_t* offsets_ = nullptr;
  int low_ = 0, high_ = 0;  // groups of the lane
  int own_ = 0, end_ = 0;   // their tiles, and all up to theirs
};

// Tiles that launches must make room for, whatever the rows of each group.
inline std::int64_t most_group_tiles(std::int64_t rows, std::int64_t groups, int tile) {
  return rows / tile + std::min(rows, groups);
}

}  // namespace glint::cuda
