// Which kernel computes a product, and in which order sums are made. Every choice gives the same
// bits: it is about time only.
#pragma once

#include <cstdint>

#include "backends/cuda/arch.h"

namespace glint::cuda {

// The order of summation: k in steps of kStep, steps in slices of `steps`, which are summed from
// zero and then added in order. It depends on k alone; codes.cuh has what happens in a step.
inline constexpr int kStep = 128;
struct Slices {
  int count, steps;
};
constexpr Slices slices_of(std::int64_t k) {
  const int steps = static_cast<int>((k + kStep - 1) / kStep);
  const int count = steps >= 32 ? 8 : steps >= 12 ? 4 : steps >= 6 ? 2 : 1;
  return {count, (steps + count - 1) / count};
}

// The longest k, for which x still fits into shared memory.
inline constexpr std::int64_t kLongest = 8 * 24 * kStep;

enum class Kernel {
  kFew8,       // weights and x past shared memory, 8 rows of x
  kCluster32,  // weights past shared memory, 32 rows of x, which wait there; a cluster for all of k
  kTile,       // tiles of the weight in shared memory, 64 rows
  kFlow,       // 128 rows, by the instructions of whole warpgroups; blocks take tile after tile
  kHalfWide,   // the same with 64 rows, a cluster for each tile and all of k, two blocks an SM
  kWide,       // the same with 128 rows, one block an SM
  kWidePairs,  // the same with two slices of k a block, where larger clusters would take turns
};

// Bytes of shared memory: the sums of eight warps, 16 of each row of x, padded against bank
// conflicts; and `steps` steps of x.
constexpr int kStreamWarps = 8, kPaddedSums = 20;
constexpr int stream_bytes(int rows, int steps) {
  return rows * (kStreamWarps * kPaddedSums * 4 + steps * 2 * kStep);
}

struct ProductShape {
  std::int64_t m = 0, n = 0, k = 0;
  int matrices = 1;
  bool grouped = false;  // rows are divided among the matrices
  bool aligned = true;   // rows of x and of the codes start at multiples of 16 bytes
};

Kernel choose_kernel(const ProductShape& shape, const Arch& arch, int num_sms);

// Whether devices that code for `target` runs on may be given `kernel`: else it need not be in it.
constexpr bool is_ever_chosen(Kernel kernel, bool aligned, const Arch& target) {
  switch (kernel) {
    case Kernel::kFew8:
      return aligned;
    case Kernel::kCluster32:
      return target.clusters;
    case Kernel::kTile:  // takes what a cluster's shared memory does not hold
      return aligned || stream_bytes(32, slices_of(kLongest).steps) > target.shared_bytes ||
             !target.clusters;
    case Kernel::kFlow:
    case Kernel::kHalfWide:
    case Kernel::kWide:
    case Kernel::kWidePairs:
      return aligned && target.wgmma;
  }
  return false;
}

}  // namespace glint::cuda
