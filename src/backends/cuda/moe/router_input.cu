// router_input: a thread block for each row, with the sums of rms_norm.
#include "backends/cuda/moe/moe.h"
#include "backends/cuda/norm/norm_row.cuh"

namespace glint::cuda {
namespace {

struct Row {
  float* x;
  std::int64_t x_stride;
  bf16 *m, *parts;
  std::int64_t m_stride, part_stride;  // three parts of a row lie one behind the other
  std::int64_t columns;
  float eps;
};

// The residue of `value` after its nearest bf16, which is `part`.
__device__ float take_part(float value, float& part) {
  part = as_float(rounded<bf16>(value));
  return value - part;
}

template <class Delta, class W>
__global__ void __launch_bounds__(kNormBlock)
    router_input_kernel(const Row r, const Delta* delta, const W* weight) {
  const std::int64_t row = blockIdx.x;
  float* const x = r.x + row * r.x_stride;
  const Delta* const own_delta = delta + row * r.columns;
  bf16 *const m = r.m + row * r.m_stride, *const parts = r.parts + row * 3 * r.part_stride;
  const auto split = [&](auto whole) {
    norm_row<whole()>(x, own_delta, weight, r.columns, r.eps, [&](std::int64_t c, float(&v)[kVec]) {
      const std::int64_t left = r.columns - c;
      float part[kVec];
      const auto take_parts = [&] {
#pragma unroll
        for (int i = 0; i < kVec; ++i) v[i] = take_part(v[i], part[i]);
      };
      take_parts();
      store<whole()>(m + c, part, left);
      store<whole()>(parts + c, part, left);
      take_parts();
      store<whole()>(parts + r.part_stride + c, part, left);
      store<whole()>(parts + 2 * r.part_stride + c, v, left);
    });
  };
  with_whole(split, r.columns, x, own_delta, weight, m, parts, parts + r.part_stride);
}

}  // namespace

void launch_router_input(const RouterInputArgs& args, const Gpu& gpu) {
  if (args.m.size() == 0) return;
  const Row row = {.x = args.x.ptr<float>(),
                   .x_stride = args.x.stride[0],
                   .m = bf16_data(args.m),
                   .parts = bf16_data(args.parts),
                   .m_stride = args.m.stride[0],
                   .part_stride = args.parts.stride[0],
                   .columns = args.x.dim(1),
                   .eps = args.eps};
  with_elements(args.delta, [&]<class Delta>(const Delta* delta) {
    with_elements(args.weight, [&]<class W>(const W* weight) {
      launch_small(router_input_kernel<Delta, W>,
                   {.grid = dim3(static_cast<unsigned>(args.x.dim(0))), .block = kNormBlock}, gpu,
                   row, delta, weight);
    });
  });
}

}  // namespace glint::cuda
