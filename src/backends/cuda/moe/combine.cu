// combine: a thread block for each token (x) and some of its columns (y).
#include "backends/cuda/dependent_launch.cuh"
#include "backends/cuda/moe/moe.h"
#include "backends/cuda/vec.cuh"

namespace glint::cuda {
namespace {

constexpr int kBlock = 128;

template <class T>
__global__ void __launch_bounds__(kBlock)
    combine_kernel(const T* y, const std::int32_t* places, const float* weights, std::int64_t k,
                   const T* shared, T* out, std::int64_t columns) {
  let_next_start();
  wait_for_inputs();
  const std::int64_t t = blockIdx.x;
  const std::int64_t c = (blockIdx.y * std::int64_t{kBlock} + threadIdx.x) * kVec;
  const std::int64_t left = columns - c;
  if (left <= 0) return;
  float sum[kVec] = {}, v[kVec];
  for (std::int64_t j = 0; j < k; ++j) {
    const std::int64_t place = places[t * k + j];
    if (place < 0) continue;
    const float weight = weights[t * k + j];
    load(v, y + place * columns + c, left);
#pragma unroll
    for (int i = 0; i < kVec; ++i) sum[i] += weight * v[i];
  }
  if (shared) {
    load(v, shared + t * columns + c, left);
#pragma unroll
    for (int i = 0; i < kVec; ++i) sum[i] += v[i];
  }
  store(out + t * columns + c, sum, left);
}

}  // namespace

void launch_combine(const CombineArgs& args, const Gpu& gpu) {
  if (args.out.size() == 0) return;
  const std::int64_t columns = args.out.dim(1), per_block = kBlock * kVec;
  const dim3 grid(static_cast<unsigned>(args.out.dim(0)),
                  static_cast<unsigned>((columns + per_block - 1) / per_block));
  with_elements(args.out, [&]<class T>(T* out) {
    launch_small(combine_kernel<T>, {.grid = grid, .block = kBlock}, gpu,
                 reinterpret_cast<const T*>(args.y.data), args.places.ptr<std::int32_t>(),
                 args.weights.ptr<float>(), args.places.dim(1),
                 reinterpret_cast<const T*>(args.shared.data), out, columns);
  });
}

}  // namespace glint::cuda
