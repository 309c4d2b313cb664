#include "backends/cpu/machine.h"

#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "base/seconds.h"
#include "base/thread_pool.h"
#include "tensor/device.h"

namespace glint {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kAccumulators = 12;  // enough to hide the latency of an FMA on two ports
constexpr std::int64_t kSteps = 1 << 17;

// Each runs kSteps * kAccumulators of its instruction and returns something that depends on all of
// them.
__attribute__((target("avx2,fma"))) float fma_avx2() {
  __m256 sums[kAccumulators], x = _mm256_set1_ps(1e-9f);
  for (__m256& sum : sums) sum = x;
  for (std::int64_t i = 0; i < kSteps; ++i) {
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, x, x);
    asm volatile("" : "+x"(x));
  }
  for (const __m256& sum : sums) x = _mm256_add_ps(x, sum);
  return _mm256_cvtss_f32(x);
}

__attribute__((target("avx512f"))) float fma_avx512() {
  __m512 sums[kAccumulators], x = _mm512_set1_ps(1e-9f);
  for (__m512& sum : sums) sum = x;
  for (std::int64_t i = 0; i < kSteps; ++i) {
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, x, x);
    asm volatile("" : "+v"(x));
  }
  for (const __m512& sum : sums) x = _mm512_add_ps(x, sum);
  return _mm512_cvtss_f32(x);
}

__attribute__((target("avx512f,avx512bf16"))) float dot_bf16() {
  __m512 sums[kAccumulators], total = _mm512_setzero_ps();
  __m512i bits = _mm512_set1_epi16(0x3f80);
  for (__m512& sum : sums) sum = total;
  for (std::int64_t i = 0; i < kSteps; ++i) {
    const __m512bh x = reinterpret_cast<__m512bh>(bits);
    for (__m512& sum : sums) sum = _mm512_dpbf16_ps(sum, x, x);
    asm volatile("" : "+v"(bits));
  }
  for (const __m512& sum : sums) total = _mm512_add_ps(total, sum);
  return _mm512_cvtss_f32(total);
}

constexpr std::int64_t kTileSteps = 1 << 15;

// Four 16 x 16 accumulator tiles, two of each operand: the most that the eight tile registers
// allow.
__attribute__((target("amx-tile,amx-bf16"))) float dot_amx() {
  struct alignas(64) Config {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t bytes_per_row[16] = {};
    std::uint8_t rows[16] = {};
  } config;
  for (int tile = 0; tile < 8; ++tile) config.bytes_per_row[tile] = 64, config.rows[tile] = 16;
  _tile_loadconfig(&config);
  alignas(64) std::uint16_t ones[512];
  std::fill(std::begin(ones), std::end(ones), std::uint16_t{0x3f80});
  _tile_loadd(4, ones, 64);
  _tile_loadd(5, ones, 64);
  _tile_loadd(6, ones, 64);
  _tile_loadd(7, ones, 64);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (std::int64_t i = 0; i < kTileSteps; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  alignas(64) float out[256];
  _tile_stored(0, out, 64);
  _tile_release();
  return out[0];
}

struct Work {
  float (*run)();
  double flops;
};
constexpr double kInstructions = static_cast<double>(kSteps) * kAccumulators;

Work f32_work(CpuIsa isa) {
  if (isa == CpuIsa::kAvx2) return {fma_avx2, kInstructions * 16};
  return {fma_avx512, kInstructions * 32};
}

Work matrix_work(CpuIsa isa) {
  if (isa == CpuIsa::kAvx512Bf16) return {dot_bf16, kInstructions * 64};
  if (isa == CpuIsa::kAmx) return {dot_amx, static_cast<double>(kTileSteps) * 4 * 16 * 16 * 32 * 2};
  return f32_work(isa);
}

// GFLOP/s of all threads: the best of `times` runs of the work, `length` times each.
double gflops(const Work& work, ThreadPool& pool, int times, int length) {
  std::atomic<float> sink = 0;
  double best = 0;
  for (int run = 0; run < times; ++run) {
    const auto start = Clock::now();
    pool.parallel([&](int, int) {
      for (int i = 0; i < length; ++i) sink.store(work.run(), std::memory_order_relaxed);
    });
    const double flops = work.flops * length * pool.num_threads();
    best = std::max(best, flops / seconds_since(start) * 1e-9);
  }
  return best;
}

double read_bandwidth(ThreadPool& pool) {
  constexpr std::size_t kBytes = std::size_t{512} << 20;  // far beyond any cache
  const std::unique_ptr<Device> device = make_host_device();
  const Buffer buffer = device->allocate(kBytes);
  if (!buffer.data()) return 0;
  pool.parallel([&](int thread, int threads) {
    const std::size_t first = kBytes * thread / threads, last = kBytes * (thread + 1) / threads;
    std::memset(buffer.data() + first, 1, last - first);
  });
  return read_gb_s({buffer.data(), kBytes}, pool);
}

}  // namespace

double read_gb_s(std::span<const std::byte> memory, ThreadPool& pool, int times) {
  const auto* const data = reinterpret_cast<const std::uint64_t*>(memory.data());
  const std::size_t words = memory.size() / sizeof *data;
  std::atomic<std::uint64_t> sink = 0;
  double best = 0;
  for (int run = 0; run < times; ++run) {
    const auto start = Clock::now();
    pool.parallel([&](int thread, int threads) {
      std::uint64_t sum = 0;
      for (std::size_t i = words * thread / threads; i < words * (thread + 1) / threads; ++i) {
        sum += data[i];
      }
      sink.fetch_add(sum, std::memory_order_relaxed);
    });
    best = std::max(best, static_cast<double>(memory.size()) / seconds_since(start) * 1e-9);
  }
  return best;
}

double matrix_gflops(CpuIsa isa, ThreadPool& pool, int times, int length) {
  return std::max(gflops(f32_work(isa), pool, times, length),
                  gflops(matrix_work(isa), pool, times, length));
}

MachineLimits measure_machine(CpuIsa isa, ThreadPool& pool) {
  const double f32_gflops = gflops(f32_work(isa), pool, 8, 1);
  return {.isa = isa,
          .threads = pool.num_threads(),
          .read_gb_s = read_bandwidth(pool),
          .f32_gflops = f32_gflops,
          .matrix_gflops = std::max(f32_gflops, matrix_gflops(isa, pool))};
}

}  // namespace glint
