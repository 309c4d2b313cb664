// layer_norm: a thread block for each row. Which elements a thread sums, and the tree over threads,
// depend on the row's length alone.
#include "backends/cuda/dependent_launch.cuh"
#include "backends/cuda/norm/norm.h"
#include "backends/cuda/reduce.cuh"
#include "backends/cuda/vec.cuh"

namespace glint::cuda {
namespace {

constexpr int kBlock = 256;

template <class X, class Out, class W, class B>
__global__ void __launch_bounds__(kBlock)
    layer_norm_kernel(const X* x, const W* weight, const B* bias, float eps, Out* out,
                      std::int64_t columns) {
  let_next_start();
  x += blockIdx.x * columns;
  out += blockIdx.x * columns;
  const float count = static_cast<float>(columns);
  float sum = 0;
  for (std::int64_t c = threadIdx.x; c < columns; c += kBlock) sum += as_float(x[c]);
  const float mean = block_sum<kBlock>(sum) / count;
  float squares = 0;
  for (std::int64_t c = threadIdx.x; c < columns; c += kBlock) {
    const float away = as_float(x[c]) - mean;
    squares += away * away;
  }
  const float scale = 1.0f / sqrtf(block_sum<kBlock>(squares) / count + eps);
  for (std::int64_t c = threadIdx.x; c < columns; c += kBlock) {
    const float normed = (as_float(x[c]) - mean) * scale;
    out[c] = rounded<Out>(normed * as_float(weight[c]) + as_float(bias[c]));
  }
}

}  // namespace

void launch_layer_norm(const LayerNormArgs& args, const Gpu& gpu) {
  if (args.out.size() == 0) return;
  const auto rows = static_cast<unsigned>(args.x.dim(0));
  with_elements(args.x, [&]<class X>(const X* x) {
    with_elements(args.weight, [&]<class W>(const W* weight) {
      with_elements(args.bias, [&]<class B>(const B* bias) {
        with_elements(args.out, [&]<class Out>(Out* out) {
          launch_in_order(layer_norm_kernel<X, Out, W, B>, {.grid = dim3(rows), .block = kBlock},
                          gpu, x, weight, bias, args.eps, out, args.x.dim(1));
        });
      });
    });
  });
}

}  // namespace glint::cuda
