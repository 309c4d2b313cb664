// CpuOps::for_rows, for the sources that implement CpuOps.
#pragma once

#include "backends/cpu/cpu_ops.h"

namespace glint {

template <class F>
void CpuOps::for_rows(std::int64_t count, std::int64_t row_size, F f) {
  constexpr std::int64_t kWorthAPhase = 1 << 14;  // elements: about as long as waking a thread
  if (count > 1 && count * row_size >= kWorthAPhase) return pool_.run(count, f);
  for (std::int64_t i = 0; i < count; ++i) f(i, 0);
}

}  // namespace glint
