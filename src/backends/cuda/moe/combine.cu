// combine: a thread block for each token (x) and some of its columns (y).
#include "backends/cuda/dependent_launch.cuh"
#include "backends/cuda/moe/moe.h"
#include "backends/cuda/vec.cuh"

namespace glint::cuda {
namespace {

constexpr int kBlock = 128, kTogether = 4;  // rows under way

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
  const auto combine = [&](auto whole) {
    float sum[kVec] = {};
    const auto add = [&](const Pack<T>& pack, float weight) {
#pragma unroll
      for (int i = 0; i < kVec; ++i) sum[i] += weight * as_float(pack.v[i]);
    };
    Pack<T> own;
    if (shared) own = load_pack<whole()>(shared + t * columns + c, left);
    for (std::int64_t first = 0; first < k; first += kTogether) {
      std::int32_t place[kTogether];
      float weight[kTogether];
      Pack<T> packs[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const bool there = first + i < k;
        place[i] = there ? places[t * k + first + i] : -1;
        weight[i] = there ? weights[t * k + first + i] : 0;
      }
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        if (place[i] >= 0) packs[i] = load_pack<whole()>(y + place[i] * columns + c, left);
      }
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        if (place[i] >= 0) add(packs[i], weight[i]);
      }
    }
    if (shared) add(own, 1);
    store<whole()>(out + t * columns + c, sum, left);
  };
  with_whole(combine, columns, y, shared, out);
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
