// Values that each rank of a group tells, on the host.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "comm/comm.h"

namespace glint {

// A value of each rank, in their order. Collective; where a rank is lost, zeros (Comm). Ranks that
// are not there (NullComm) have this one's.
template <class T>
std::vector<T> all_of(T mine, Comm& comm) {
  constexpr std::int64_t kWords = sizeof(T) / sizeof(std::int32_t);
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) == kWords * sizeof(std::int32_t));
  std::vector<T> all(static_cast<std::size_t>(comm.size()), mine);
  comm.all_gather(
      Tensor(reinterpret_cast<std::byte*>(&mine), DType::kI32, {1, kWords}),
      Tensor(reinterpret_cast<std::byte*>(all.data()), DType::kI32, {comm.size(), kWords}));
  return all;
}

}  // namespace glint
