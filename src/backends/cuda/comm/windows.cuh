// A thread block's side of a call through windows.
#pragma once

#include "backends/cuda/comm/windows.h"

namespace glint::cuda {

__device__ inline void tell(std::uint32_t* flag, std::uint32_t turn) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(turn) : "memory");
}
__device__ inline std::uint32_t heard(const std::uint32_t* flag) {
  std::uint32_t turn;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(turn) : "l"(flag) : "memory");
  return turn;
}

// All threads of the block construct it, and call its functions together.
class Turns {
 public:
  __device__ explicit Turns(const Windows& windows)
      : windows_(windows),
        turn_(windows.turns[blockIdx.x]),
        has_ended_(windows.turns[kWindowBlocks + blockIdx.x] != 0) {}
  __device__ ~Turns() {
    __syncthreads();
    if (threadIdx.x != 0) return;
    windows_.turns[blockIdx.x] = turn_;
    windows_.turns[kWindowBlocks + blockIdx.x] = has_ended_ ? 1 : 0;
  }

  // The block's slice of a rank's window in this turn, or in a later one.
  template <class T>
  __device__ T* slice(int rank, int ahead = 0) const {
    const std::size_t number = blockIdx.x * 2 + (turn_ + ahead) % 2;
    return reinterpret_cast<T*>(windows_.at[rank] + kFlagBytes + number * kSliceBytes);
  }
  template <class T>
  __device__ T* mine(int ahead = 0) const {
    return slice<T>(windows_.rank, ahead);
  }

  // Whether the block met in vain, in this call or an earlier one. Then it writes to no slice:
  // those who met may still read there.
  __device__ bool has_ended() const { return has_ended_; }
  // Shows what the block wrote to its slice, and waits for the others'. False: the group has ended,
  // and so it stays, for what is told late is no part of the next call.
  __device__ bool meet() {
    if (has_ended_) return false;
    __shared__ bool gone;
    if (threadIdx.x == 0) gone = false;
    __syncthreads();
    const auto other = static_cast<int>(threadIdx.x);
    if (other < windows_.size) {
      tell(flag(other, windows_.rank), turn_ + 1);
      const std::uint32_t* const theirs = flag(windows_.rank, other);
      for (int looks = 1; static_cast<std::int32_t>(heard(theirs) - turn_ - 1) < 0; ++looks) {
        if (looks % 1024 != 0 || heard(windows_.ended) == 0) continue;
        gone = true;
        break;
      }
    }
    __syncthreads();
    has_ended_ = gone;
    return !has_ended_;
  }
  __device__ void next() { ++turn_; }

 private:
  // Where `from` tells the block of `to` its turn.
  __device__ std::uint32_t* flag(int to, int from) const {
    return reinterpret_cast<std::uint32_t*>(windows_.at[to]) + blockIdx.x * kMostWindows + from;
  }

  const Windows& windows_;
  std::uint32_t turn_;
  bool has_ended_;
};

}  // namespace glint::cuda
