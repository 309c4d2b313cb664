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

Result<Way> choose_way(std::span<const Reach> ranks, bool use_windows) {
  constexpr int kWithWindows = 22800;
  const auto size = static_cast<int>(ranks.size());
  if (size == 1) return Way::kAlone;
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
  if (ranks[0].nccl == 0) return Way::kHost;
  const std::uint32_t everybody = (std::uint32_t{1} << std::min(size, 31)) - 1;
  const bool has_windows =
      use_windows && ranks[0].nccl >= kWithWindows && size <= kMostWindows &&
      all_have([&](const Reach& r) { return r.host == ranks[0].host; }) &&
      all_have([&](const Reach& r) { return (r.peers & everybody) == everybody; });
  return has_windows ? Way::kWindows : Way::kNccl;
}

}  // namespace glint::cuda
