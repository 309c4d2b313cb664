// Rows of an op, on all threads or on one.
#pragma once

#include "base/thread_pool.h"

namespace glint::cpu {

// f(row, thread) for rows [0, count): on all threads if count * row_size is worth a phase.
template <class F>
void for_rows(ThreadPool& pool, std::int64_t count, std::int64_t row_size, F f) {
  constexpr std::int64_t kWorthAPhase = 1 << 14;  // elements: about as long as waking a thread
  if (count > 1 && count * row_size >= kWorthAPhase) return pool.run(count, f);
  for (std::int64_t i = 0; i < count; ++i) f(i, 0);
}

}  // namespace glint::cpu
