// How a group of GPUs moves bytes, as a pure function of what its ranks reach.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"

namespace glint::cuda {

enum class Way {
  kAlone,    // a group of one: nothing moves
  kWindows,  // kernels read the other GPUs' memory
  kNccl,     // NCCL copies, kernels add
  kHost,     // through the hosts' memory
};
const char* name_of(Way way);

// A rank's side.
struct Reach {
  std::uint64_t host = 0;   // the machine
  std::uint64_t gpu = 0;    // of all machines' GPUs
  std::uint32_t peers = 0;  // bit r: this GPU reads the memory of rank r's
  int nccl = 0;             // version of the library, as it counts; 0: there is none
};

// Windows need NCCL 2.28, which makes them, one machine, GPUs that reach each other, and no more
// than kMostWindows of them; `use_windows` false: the user has them off. Fails where two ranks have
// one GPU, or where NCCL is of several versions.
Result<Way> choose_way(std::span<const Reach> ranks, bool use_windows);

}  // namespace glint::cuda
