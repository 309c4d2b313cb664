// rms_norm: a thread block for each row.
#include "backends/cuda/norm/norm.h"
#include "backends/cuda/norm/norm_row.cuh"

namespace glint::cuda {
namespace {

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
__global__ void __launch_bounds__(kNormBlock)
    rms_norm_kernel(Row<X, Delta, Out> r, const W* weight) {
  const std::int64_t row = blockIdx.x;
  X* const x = r.x + row * r.x_stride;
  const Delta* const delta = r.delta ? r.delta + row * r.columns : nullptr;
  Out* const out = r.out + row * r.out_stride;
  const auto normalise = [&](auto whole) {
    norm_row<whole()>(
        x, delta, weight, r.columns, r.eps,
        [&](std::int64_t c, const float(&v)[kVec]) { store<whole()>(out + c, v, r.columns - c); });
  };
  with_whole(normalise, r.columns, x, delta, weight, out);
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
          launch_small(rms_norm_kernel<X, Delta, Out, W>,
                       {.grid = dim3(static_cast<unsigned>(args.x.dim(0))), .block = kNormBlock},
                       gpu, row, weight);
        });
      });
    });
  });
}

}  // namespace glint::cuda
