// router_input: a thread block for each row, as rms_norm has it, with the same sums.
#include "backends/cuda/dependent_launch.cuh"
#include "backends/cuda/moe/moe.h"
#include "backends/cuda/reduce.cuh"
#include "backends/cuda/vec.cuh"

namespace glint::cuda {
namespace {

constexpr int kBlock = 256;

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
__global__ void __launch_bounds__(kBlock)
    router_input_kernel(const Row r, const Delta* delta, const W* weight) {
  let_next_start();
  float* const x = r.x + blockIdx.x * r.x_stride;
  const std::int64_t first = threadIdx.x * kVec, step = kBlock * kVec;
  float squares = 0;
  for (std::int64_t c = first; c < r.columns; c += step) {
    float v[kVec], d[kVec];
    load(v, x + c, r.columns - c);
    load(d, delta + blockIdx.x * r.columns + c, r.columns - c);
#pragma unroll
    for (int i = 0; i < kVec; ++i) v[i] += d[i], squares += v[i] * v[i];
    store(x + c, v, r.columns - c);
  }
  const float scale =
      1.0f / sqrtf(block_sum<kBlock>(squares) / static_cast<float>(r.columns) + r.eps);
  bf16* const parts = r.parts + blockIdx.x * 3 * r.part_stride;
  for (std::int64_t c = first; c < r.columns; c += step) {
    float v[kVec], w[kVec], part[kVec];
    load(v, x + c, r.columns - c);
    load(w, weight + c, r.columns - c);
#pragma unroll
    for (int i = 0; i < kVec; ++i) v[i] = take_part(v[i] * scale * w[i], part[i]);
    store(r.m + blockIdx.x * r.m_stride + c, part, r.columns - c);
    store(parts + c, part, r.columns - c);
#pragma unroll
    for (int i = 0; i < kVec; ++i) v[i] = take_part(v[i], part[i]);
    store(parts + r.part_stride + c, part, r.columns - c);
    store(parts + 2 * r.part_stride + c, v, r.columns - c);
  }
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
      launch_in_order(router_input_kernel<Delta, W>,
                      {.grid = dim3(static_cast<unsigned>(args.x.dim(0))), .block = kBlock}, gpu,
                      row, delta, weight);
    });
  });
}

}  // namespace glint::cuda
