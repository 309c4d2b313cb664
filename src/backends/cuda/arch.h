// The abilities of GPUs that kernels differ by. The host chooses among kernels by those of its
// device; kernels, which are compiled once for each architecture, by those of their own.
#pragma once

#include <cstdint>

namespace glint::cuda {

struct Arch {
  int capability = 0;     // 90: sm_90
  int shared_bytes = 0;   // of shared memory, the most of one thread block
  bool clusters = false;  // thread blocks that read each other's shared memory, and launches that
                          // begin before the kernel before them has ended
  bool wgmma = false;     // products by whole warpgroups
};

// By the tables of compute capabilities in CUDA's programming guide.
constexpr Arch arch_of(int capability) {
  const int major = capability / 10;
  Arch arch = {.capability = capability,
               .shared_bytes = 227 << 10,
               .clusters = major >= 9,
               .wgmma = capability == 90};
  if (major == 8) arch.shared_bytes = (capability == 80 || capability == 87 ? 163 : 99) << 10;
  if (major == 12) arch.shared_bytes = 99 << 10;
  return arch;
}

// Clusters of `size` thread blocks that find room at once, with `each` blocks a multiprocessor. A
// cluster lies within one group of multiprocessors, and the groups' sizes are no multiples of it:
// of an H200's 132 there is room for 15 clusters of eight, and 31 of four.
constexpr std::int64_t clusters_at_once(int num_sms, int size, int each) {
  return (num_sms - std::int64_t{8}) * each / size;
}

}  // namespace glint::cuda
