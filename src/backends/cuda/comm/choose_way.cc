#include "backends/cuda/comm/choose_way.h"

#include <algorithm>

#include "backends/cuda/comm/windows.h"
#include "base/str.h"

namespace glint::cuda {

const char* name_of(Way way) {
  switch (way) {
    case Way::kAlone:
      return "alone";
    case Way::kWindows:
      return "in windows of the GPUs' memory";
    case Way::kNccl:
      return "by NCCL";
    case Way::kHost:
      break;
  }
  return "through the host";
}

Result<ChosenWay> choose_way(std::span<const Reach> ranks, bool use_windows) {
  constexpr int kWithWindows = 22800;
  const auto size = static_cast<int>(ranks.size());
  if (size == 1) return ChosenWay{Way::kAlone};
  for (int r = 0; r < size; ++r) {
    for (int other = 0; other < r; ++other) {
      if (ranks[r].gpu == ranks[other].gpu) {
        return invalid(str("ranks ", other, " and ", r,
                           " have the same GPU; there must be one for each rank: ask for fewer "
                           "ranks, or show more devices (CUDA_VISIBLE_DEVICES)"));
      }
    }
  }
  const auto all_have = [&](auto what) { return std::all_of(ranks.begin(), ranks.end(), what); };
  if (!all_have([&](const Reach& r) { return r.nccl == ranks[0].nccl; })) {
    return invalid("the ranks have different versions of NCCL (libnccl.so.2); install one");
  }
  if (ranks[0].nccl == 0) {
    return ChosenWay{Way::kHost, "there is no NCCL (libnccl.so.2), which moves bytes between GPUs"};
  }
  const std::uint32_t everybody = (std::uint32_t{1} << std::min(size, 31)) - 1;
  std::string why;
  if (!use_windows) {
    why = "as asked";
  } else if (ranks[0].nccl < kWithWindows) {
    why = str("windows need NCCL 2.28, and this is ", ranks[0].nccl / 10000, ".",
              ranks[0].nccl / 100 % 100);
  } else if (size > kMostWindows) {
    why = str("windows are of ", kMostWindows, " GPUs at most");
  } else if (!all_have([&](const Reach& r) { return r.host == ranks[0].host; })) {
    why = "the GPUs are of several machines";
  } else if (!all_have([&](const Reach& r) { return (r.peers & everybody) == everybody; })) {
    why = "the GPUs do not reach each other's memory";
  }
  return ChosenWay{why.empty() ? Way::kWindows : Way::kNccl, why};
}

}  // namespace glint::cuda
