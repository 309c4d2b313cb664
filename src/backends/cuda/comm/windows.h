// Windows: memory of every GPU of a group that all of them read, over NVLink or PCIe. A rank writes
// what it tells into its own window, says so in the windows of the others, and reads theirs.
//
// A thread block talks with the blocks of its number on the other GPUs only, so kernels of a call
// have the same grid on all. Each block counts its turns; a window holds what it told in the last
// two, so that who has met the others in one turn may overwrite what it told the turn before. Where
// the group has ended, a block writes zeros for what did not come (comm/comm.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace glint::cuda {

inline constexpr int kMostWindows = 8;                              // GPUs of a group
inline constexpr int kWindowBlocks = 64;                            // thread blocks that talk
inline constexpr std::size_t kSliceBytes = std::size_t{128} << 10;  // that one tells in a turn
inline constexpr std::size_t kFlagBytes = 4096;  // [kWindowBlocks, kMostWindows] u32, in front
inline constexpr std::size_t kWindowBytes = kFlagBytes + 2 * kWindowBlocks * kSliceBytes;
static_assert(kWindowBlocks * kMostWindows * sizeof(std::uint32_t) <= kFlagBytes);

// Memory of a group that moves bytes by NCCL: for the parts of a sum, or the rows that are sent.
inline constexpr std::size_t kGroupScratch = std::size_t{64} << 20;

struct Windows {
  std::byte* at[kMostWindows] = {};      // by rank
  std::uint32_t* turns = nullptr;        // [2, kWindowBlocks], on this GPU: turns; who met in vain
  const std::uint32_t* ended = nullptr;  // pinned; not 0: wait for nobody
  int rank = 0, size = 1;
};

}  // namespace glint::cuda
