// rms_norm: a thread block for each row. Which elements a thread sums, and the tree over threads,
// depend on the row's length alone.
#include "backends/cuda/dependent_launch.cuh"
#include "backends/cuda/norm/norm.h"
#include "backends/cuda/reduce.cuh"
#include "backends/cuda/vec.cuh"

namespace glint::cuda {
namespace {

constexpr int kBlock = 256;

template <class X, class Delta, class Out>
struct Row {
  X* x;
  std::int64_t x_stride;
  const Delta* delta;  // dense; null: none
  Out* out;
  std::int64_t out_stride;
  std::int64_t columns;
  float eps;
};

template <class X, class Delta, class Out, class W>
__global__ void __launch_bounds__(kBlock) rms_norm_kernel(Row<X, Delta, Out> r, const W* weight) {
  X* x = r.x + blockIdx.x * r.x_stride;
  Out* out = r.out + blockIdx.x * r.out_stride;
  const std::int64_t first = threadIdx.x * kVec, step = kBlock * kVec;
  let_next_start();

  float squares = 0;
  for (std::int64_t c = first; c < r.columns; c += step) {
    float v[kVec];
    load(v, x + c, r.columns - c);
    if (r.delta) {
      float d[kVec];
      load(d, r.delta + blockIdx.x * r.columns + c, r.columns - c);
#pragma unroll
      for (int i = 0; i < kVec; ++i) v[i] = as_float(rounded<X>(v[i] + d[i]));
      store(x + c, v, r.columns - c);
    }
#pragma unroll
    for (int i = 0; i < kVec; ++i) squares += v[i] * v[i];
  }
  const float scale =
      1.0f / sqrtf(block_sum<kBlock>(squares) / static_cast<float>(r.columns) + r.eps);

  // A thread reads again what it read (or wrote) itself: from the L1 cache.
  for (std::int64_t c = first; c < r.columns; c += step) {
    float v[kVec], w[kVec];
    load(v, x + c, r.columns - c);
    load(w, weight + c, r.columns - c);
#pragma unroll
    for (int i = 0; i < kVec; ++i) v[i] = v[i] * scale * w[i];
    store(out + c, v, r.columns - c);
  }
}

}  // namespace

void launch_rms_norm(const RmsNormArgs& args, const Gpu& gpu) {
  if (args.out.size() == 0) return;
  with_elements(args.x, [&]<class X>(X* x) {
    with_elements(args.delta, [&]<class Delta>(Delta* delta) {
      with_elements(args.out, [&]<class Out>(Out* out) {
        with_elements(args.weight, [&]<class W>(const W* weight) {
          const Row<X, Delta, Out> row = {.x = x,
                                          .x_stride = args.x.stride[0],
                                          .delta = delta,
                                          .out = out,
                                          .out_stride = args.out.stride[0],
                                          .columns = args.x.dim(1),
                                          .eps = args.eps};
          launch_in_order(rms_norm_kernel<X, Delta, Out, W>,
                          {.grid = dim3(static_cast<unsigned>(args.x.dim(0))), .block = kBlock},
                          gpu, row, weight);
        });
      });
    });
  });
}

}  // namespace glint::cuda
