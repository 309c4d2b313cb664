// Barriers of shared memory, which threads and copies arrive at, and whose phases threads wait for;
// and copies by the device's copy engine. That takes whole rows past the threads, and past the
// path of their loads and stores, where a copy of theirs takes a turn for every 32 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/arch.cuh"

namespace glint::cuda {

inline constexpr bool kHasCopyEngine = kArch.capability >= 90;

__device__ inline std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}
__device__ inline void start_barrier(std::uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals)
               : "memory");
}
// By the thread that started barriers, before others meet it and use them.
__device__ inline void show_barriers() {
  if constexpr (kHasCopyEngine) asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void arrive(std::uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}
// Starts the copy of 16 bytes, or of zeros.
__device__ inline void copy_16(void* to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(there ? 16 : 0)
               : "memory");
}
// Arrives when all copies that this thread has started are there.
__device__ inline void arrive_after_copies(std::uint64_t* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier))
               : "memory");
}
// Arrives, and tells how many bytes of copy_bulk() the phase waits for.
__device__ inline void arrive_expecting(std::uint64_t* barrier, int bytes) {
  if constexpr (kHasCopyEngine) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
        "r"(bytes)
        : "memory");
  }
}
// Copies a multiple of 16 bytes, between multiples of 16.
__device__ inline void copy_bulk(void* to, const void* from, int bytes, std::uint64_t* barrier) {
  if constexpr (kHasCopyEngine) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
        "[%3];" ::"r"(shared_address(to)),
        "l"(from), "r"(bytes), "r"(shared_address(barrier))
        : "memory");
  }
}
__device__ inline void wait_at(std::uint64_t* barrier, unsigned parity) {
  if constexpr (kHasCopyEngine) {
    asm volatile(
        "{\n.reg .pred done;\nagain:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n}\n" ::"r"(shared_address(barrier)),
        "r"(parity)
        : "memory");
  } else {
    asm volatile(
        "{\n.reg .pred done;\nagain:\n"
        "mbarrier.test_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n}\n" ::"r"(shared_address(barrier)),
        "r"(parity)
        : "memory");
  }
}

// Shows what a thread wrote to shared memory to the copy engine and to instructions of warpgroups.
__device__ inline void show_writes() {
  if constexpr (kHasCopyEngine) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// A place in a ring of stages, and the parity of the phase of its barrier.
template <int kStages>
struct RingPlace {
  int stage = 0;
  unsigned parity = 0;
  __device__ void advance() {
    if (++stage == kStages) stage = 0, parity ^= 1;
  }
};

}  // namespace glint::cuda
