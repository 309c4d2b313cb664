// Sums of a group of GPUs: parts lie in windows (windows.h), and whoever adds reads them all.
#include <algorithm>
#include <type_traits>

#include "backends/cuda/comm/collectives.h"
#include "backends/cuda/comm/tree.cuh"
#include "backends/cuda/comm/windows.cuh"
#include "backends/cuda/dependent_launch.cuh"
#include "backends/cuda/vec.cuh"
#include "base/check.h"
#include "comm/tree.h"

namespace glint::cuda {
namespace {

constexpr int kThreads = 512;
constexpr std::int64_t kQuad = 4;  // floats that a thread handles at a time
constexpr std::int64_t kSliceFloats = kSliceBytes / sizeof(float);

__device__ inline bool is_whole(const float* p, std::int64_t left) {
  return left >= kQuad && reinterpret_cast<std::uintptr_t>(p) % sizeof(float4) == 0;
}

// Into the block's slice, from `begin` on, which is a multiple of kQuad: from[0 .. n).
__device__ inline void tell_floats(const Turns& turns, std::int64_t begin, const float* from,
                                   std::int64_t n) {
  if (turns.has_ended()) return;
  float* const to = turns.mine<float>() + begin;
  for (std::int64_t i = threadIdx.x * kQuad; i < n; i += kThreads * kQuad) {
    if (is_whole(from + i, n - i)) {
      *reinterpret_cast<float4*>(to + i) = *reinterpret_cast<const float4*>(from + i);
    } else {
      for (std::int64_t j = i; j < min(i + kQuad, n); ++j) to[j] = from[j];
    }
  }
}

// Four floats of another GPU's window, which no cache of this one may keep.
__device__ inline void load_far(float (&v)[kQuad], const float* p) {
  const float4 quad = __ldcg(reinterpret_cast<const float4*>(p));
  v[0] = quad.x, v[1] = quad.y, v[2] = quad.z, v[3] = quad.w;
}

template <class T>
__device__ inline void store_quad(T* to, const float (&v)[kQuad], std::int64_t left) {
  if (left >= kQuad && reinterpret_cast<std::uintptr_t>(to) % (kQuad * sizeof(T)) == 0) {
    struct alignas(kQuad * sizeof(T)) Quad {
      T v[kQuad];
    };
    Quad quad;
#pragma unroll
    for (int j = 0; j < kQuad; ++j) quad.v[j] = rounded<T>(v[j]);
    *reinterpret_cast<Quad*>(to) = quad;
  } else {
#pragma unroll
    for (int j = 0; j < kQuad; ++j) {
      if (j < left) to[j] = rounded<T>(v[j]);
    }
  }
}

// to[0 .. n) = 0, of the block.
template <class T>
__device__ inline void clear(T* to, std::int64_t n) {
  for (std::int64_t i = threadIdx.x; i < n; i += kThreads) to[i] = rounded<T>(0.0f);
}

// to[i] = the ranks' slices' [i] for i in [begin, end) of the block; begin is a multiple of kQuad.
template <int kRanks, class T>
__device__ inline void add_slices(const Turns& turns, T* to, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin + threadIdx.x * kQuad; i < end; i += kThreads * kQuad) {
    float parts[kRanks][kQuad];
#pragma unroll
    for (int r = 0; r < kRanks; ++r) load_far(parts[r], turns.slice<float>(r) + i);
    float sum[kQuad];
#pragma unroll
    for (int j = 0; j < kQuad; ++j) {
      float column[kRanks];
#pragma unroll
      for (int r = 0; r < kRanks; ++r) column[r] = parts[r][j];
      sum[j] = tree<kRanks>(column);
    }
    store_quad(to + i, sum, end - i);
  }
}

template <int kRanks, class T>
__global__ void __launch_bounds__(kThreads)
    one_shot(const __grid_constant__ Windows windows, const float* partial, T* out,
             std::int64_t size, std::int64_t each) {
  Turns turns(windows);
  for (std::int64_t at = blockIdx.x * each; at < size; at += gridDim.x * each) {
    const std::int64_t n = min(each, size - at);
    tell_floats(turns, 0, partial + at, n);
    if (!turns.meet()) {
      clear(out + at, n);
      continue;
    }
    add_slices<kRanks>(turns, out + at, 0, n);
    turns.next();
  }
}

template <int kRanks, class T>
__global__ void __launch_bounds__(kThreads)
    two_shot(const __grid_constant__ Windows windows, const float* partial, T* out,
             std::int64_t size, std::int64_t each) {
  Turns turns(windows);
  for (std::int64_t at = blockIdx.x * each; at < size; at += gridDim.x * each) {
    const std::int64_t n = min(each, size - at);
    const std::int64_t share = (n + kRanks * kQuad - 1) / (kRanks * kQuad) * kQuad;
    const auto begin = [&](int rank) { return min(rank * share, n); };
    tell_floats(turns, 0, partial + at, n);
    bool came = turns.meet();
    if (came) {
      // The sums go to the next turn's slice, where the others read them.
      add_slices<kRanks>(turns, turns.mine<float>(1), begin(windows.rank), begin(windows.rank + 1));
      turns.next();
      came = turns.meet();
    }
    if (!came) {
      clear(out + at, n);
      continue;
    }
    for (int r = 0; r < kRanks; ++r) {
      const float* const theirs = turns.slice<float>(r);
      for (std::int64_t i = begin(r) + threadIdx.x * kQuad; i < begin(r + 1);
           i += kThreads * kQuad) {
        float sum[kQuad];
        load_far(sum, theirs + i);
        store_quad(out + at + i, sum, begin(r + 1) - i);
      }
    }
    turns.next();
  }
}

// This rank's share of the sum, of `size` elements.
template <int kRanks, class T>
__global__ void __launch_bounds__(kThreads)
    scattered(const __grid_constant__ Windows windows, const float* partial, T* out,
              std::int64_t size, std::int64_t each) {
  Turns turns(windows);
  for (std::int64_t at = blockIdx.x * each; at < size; at += gridDim.x * each) {
    const std::int64_t n = min(each, size - at);
    for (int r = 0; r < kRanks; ++r) tell_floats(turns, r * each, partial + r * size + at, n);
    if (!turns.meet()) {
      clear(out + at, n);
      continue;
    }
    add_slices<kRanks>(turns, out + at - windows.rank * each, windows.rank * each,
                       windows.rank * each + n);
    turns.next();
  }
}

// For any number of parts: groups of more GPUs than windows can have come here, too.
template <class T>
__global__ void __launch_bounds__(kThreads)
    add_parts(const float* parts, int count, std::int64_t stride, T* out, std::int64_t size) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < size;
       i += std::int64_t{gridDim.x} * kThreads) {
    out[i] = rounded<T>(tree_sum(count, [&](int part) { return parts[part * stride + i]; }));
  }
}

// f(where `out` is), for its type.
template <class F>
void with_type(const Tensor& out, F&& f) {
  if (out.dtype == DType::kF32) return f(out.ptr<float>());
  GLINT_CHECK(out.dtype == DType::kBF16, "a sum of ranks goes to " + out.describe());
  f(reinterpret_cast<bf16*>(out.data));
}

// f(the number of ranks as a constant, where `out` is), for out's type.
template <class F>
void with_sum(int ranks, const Tensor& out, F&& f) {
  with_ranks(ranks, [&](auto count) { with_type(out, [&](auto* to) { f(count, to); }); });
}

std::int64_t whole_quads(std::int64_t n) { return (n + kQuad - 1) / kQuad * kQuad; }

// Elements of a block in a turn, of at most `most`: as many blocks as there are, but a quad for
// each of its threads.
std::int64_t of_a_block(std::int64_t size, std::int64_t most) {
  const std::int64_t even = whole_quads((size + kWindowBlocks - 1) / kWindowBlocks);
  return std::clamp(even, kThreads * kQuad, most);
}
LaunchShape shape_for(std::int64_t size, std::int64_t each) {
  const std::int64_t blocks = std::min<std::int64_t>((size + each - 1) / each, kWindowBlocks);
  return {.grid = dim3(static_cast<unsigned>(blocks)), .block = kThreads};
}

}  // namespace

void launch_all_reduce(const Windows& windows, const Tensor& partial, const Tensor& out,
                       const Gpu& gpu, Shots shots) {
  const std::int64_t size = out.size();
  if (size == 0) return;
  if (windows.size == 1) return launch_add_parts(partial.ptr<float>(), 1, 0, out, gpu);
  const std::int64_t each = of_a_block(size, kSliceFloats);
  const bool is_one = windows.size <= 2 || size <= kMostOneShot;
  if (shots == Shots::kByShape) shots = is_one ? Shots::kOne : Shots::kTwo;
  with_sum(windows.size, out, [&](auto ranks, auto* to) {
    using T = std::remove_pointer_t<decltype(to)>;
    launch_in_order(shots == Shots::kOne ? one_shot<ranks(), T> : two_shot<ranks(), T>,
                    shape_for(size, each), gpu, windows, partial.ptr<float>(), to, size, each);
  });
}

void launch_reduce_scatter(const Windows& windows, const Tensor& partial, const Tensor& out,
                           const Gpu& gpu) {
  const std::int64_t size = out.size();
  if (size == 0) return;
  if (windows.size == 1) return launch_add_parts(partial.ptr<float>(), 1, 0, out, gpu);
  const std::int64_t most = kSliceFloats / windows.size / kQuad * kQuad;
  const std::int64_t each = of_a_block(size, most);
  with_sum(windows.size, out, [&](auto ranks, auto* to) {
    using T = std::remove_pointer_t<decltype(to)>;
    launch_in_order(scattered<ranks(), T>, shape_for(size, each), gpu, windows,
                    partial.ptr<float>(), to, size, each);
  });
}

void launch_add_parts(const float* parts, int count, std::int64_t stride, const Tensor& out,
                      const Gpu& gpu) {
  const std::int64_t size = out.size();
  if (size == 0) return;
  const std::int64_t blocks = std::min<std::int64_t>((size + kThreads - 1) / kThreads, 1024);
  const LaunchShape shape = {.grid = dim3(static_cast<unsigned>(blocks)), .block = kThreads};
  with_type(out, [&](auto* to) {
    using T = std::remove_pointer_t<decltype(to)>;
    launch_in_order(add_parts<T>, shape, gpu, parts, count, stride, to, size);
  });
}

}  // namespace glint::cuda
