// rms_norm_back: what a row's gradient needs of all of it, the weight's gradient by blocks of
// tokens, and then the rows'.
#include "backends/cuda/backward/temporaries.h"
#include "backends/cuda/reduce.cuh"
#include "backends/cuda/vec.cuh"

namespace glint::cuda {
namespace {

constexpr int kBlock = 256, kTokens = RmsNormBackTemporaries::kTokens;

template <class X, class W>
struct Norm {
  const X* x;
  std::int64_t x_stride;
  const W* weight;
  float *dout, *dx, *ddelta;  // ddelta: null where there was no delta
  std::int64_t dout_stride, dx_stride, ddelta_stride;
  std::int64_t tokens, columns;
  float eps;
  float2* scales;  // [T]: of weight g, and of x
};

template <class X, class W>
__global__ void __launch_bounds__(kBlock) find_scales(const Norm<X, W> n) {
  const std::int64_t t = blockIdx.x;
  float squares = 0, along = 0;
  for (std::int64_t c = threadIdx.x * kVec; c < n.columns; c += kBlock * kVec) {
    float x[kVec], w[kVec], g[kVec];
    load(x, n.x + t * n.x_stride + c, n.columns - c);
    load(w, n.weight + c, n.columns - c);
    load(g, n.dout + t * n.dout_stride + c, n.columns - c);
#pragma unroll
    for (int i = 0; i < kVec; ++i) squares += x[i] * x[i], along += x[i] * w[i] * g[i];
  }
  squares = block_sum<kBlock>(squares);
  along = block_sum<kBlock>(along);
  if (threadIdx.x > 0) return;
  const float size = static_cast<float>(n.columns), r = 1 / sqrtf(squares / size + n.eps);
  n.scales[t] = {r, r * r * r / size * along};
}

// A thread for each column (x) of a block of tokens (y).
template <class X, class W>
__global__ void __launch_bounds__(kBlock) sum_weights(const Norm<X, W> n, float* parts) {
  const std::int64_t c = blockIdx.x * std::int64_t{kBlock} + threadIdx.x;
  if (c >= n.columns) return;
  const std::int64_t first = blockIdx.y * std::int64_t{kTokens};
  float sum = 0;
  for (std::int64_t t = first; t < min(first + kTokens, n.tokens); ++t) {
    sum += n.dout[t * n.dout_stride + c] * as_float(n.x[t * n.x_stride + c]) * n.scales[t].x;
  }
  parts[blockIdx.y * n.columns + c] = sum;
}

__global__ void __launch_bounds__(kBlock)
    add_parts(const float* parts, std::int64_t count, std::int64_t columns, float* dweight) {
  const std::int64_t c = blockIdx.x * std::int64_t{kBlock} + threadIdx.x;
  if (c >= columns) return;
  float sum = dweight[c];
  for (std::int64_t i = 0; i < count; ++i) sum += parts[i * columns + c];
  dweight[c] = sum;
}

// dx may be dout, whose zeros are written first.
template <class X, class W>
__global__ void __launch_bounds__(kBlock) add_to_rows(const Norm<X, W> n) {
  const std::int64_t t = blockIdx.x;
  const float2 scales = n.scales[t];
  for (std::int64_t c = threadIdx.x * kVec; c < n.columns; c += kBlock * kVec) {
    const std::int64_t left = n.columns - c;
    constexpr float kZeros[kVec] = {};
    float x[kVec], w[kVec], g[kVec], dx[kVec];
    load(x, n.x + t * n.x_stride + c, left);
    load(w, n.weight + c, left);
    load(g, n.dout + t * n.dout_stride + c, left);
    store(n.dout + t * n.dout_stride + c, kZeros, left);
    load(dx, n.dx + t * n.dx_stride + c, left);
#pragma unroll
    for (int i = 0; i < kVec; ++i) dx[i] += scales.x * w[i] * g[i] - x[i] * scales.y;
    store(n.dx + t * n.dx_stride + c, dx, left);
    if (!n.ddelta) continue;
    float ddelta[kVec];
    load(ddelta, n.ddelta + t * n.ddelta_stride + c, left);
#pragma unroll
    for (int i = 0; i < kVec; ++i) ddelta[i] += dx[i];
    store(n.ddelta + t * n.ddelta_stride + c, ddelta, left);
  }
}

}  // namespace

RmsNormBackTemporaries::RmsNormBackTemporaries(const RmsNormBackArgs& args, Arena& scratch) {
  const std::int64_t T = args.dout.dim(0);
  scales = scratch.take(DType::kF32, {T, 2});
  if (args.dweight) {
    parts = scratch.take(DType::kF32, {(T + kTokens - 1) / kTokens, args.dout.dim(1)});
  }
}

void launch_rms_norm_back(const RmsNormBackArgs& args, Arena& scratch, const Gpu& gpu) {
  const std::int64_t T = args.dout.dim(0), D = args.dout.dim(1);
  if (T == 0) return;
  const Arena::Scope scope(scratch);
  const RmsNormBackTemporaries memory(args, scratch);
  with_elements(args.op.x, [&]<class X>(X* x) {
    with_elements(args.op.weight, [&]<class W>(W* weight) {
      const Norm<X, W> norm = {.x = x,
                               .x_stride = args.op.x.stride[0],
                               .weight = weight,
                               .dout = args.dout.ptr<float>(),
                               .dx = args.dx.ptr<float>(),
                               .ddelta = args.ddelta ? args.ddelta.ptr<float>() : nullptr,
                               .dout_stride = args.dout.stride[0],
                               .dx_stride = args.dx.stride[0],
                               .ddelta_stride = args.ddelta ? args.ddelta.stride[0] : 0,
                               .tokens = T,
                               .columns = D,
                               .eps = args.op.eps,
                               .scales = reinterpret_cast<float2*>(memory.scales.data)};
      find_scales<<<static_cast<unsigned>(T), kBlock, 0, gpu.stream>>>(norm);
      if (args.dweight) {
        const std::int64_t blocks = memory.parts.dim(0);
        const auto across = static_cast<unsigned>((D + kBlock - 1) / kBlock);
        float* const parts = memory.parts.ptr<float>();
        sum_weights<<<dim3(across, static_cast<unsigned>(blocks)), kBlock, 0, gpu.stream>>>(norm,
                                                                                            parts);
        add_parts<<<across, kBlock, 0, gpu.stream>>>(parts, blocks, D, args.dweight.ptr<float>());
      }
      add_to_rows<<<static_cast<unsigned>(T), kBlock, 0, gpu.stream>>>(norm);
    });
  });
}

}  // namespace glint::cuda
