// linear of f32 activations with few outputs, the router: k is divided among the warps of a thread
// block, which multiplies kColumns rows of the weight with kRows rows of x.
//
// Order of summation, for every output: a lane adds up every 32nd run of four columns of its warp's
// slice of k, then the lanes a tree, then the slices in order. It depends on k alone.
#include "backends/cuda/dependent_launch.cuh"
#include "backends/cuda/linear/decode.cuh"
#include "backends/cuda/linear/linear.h"
#include "backends/cuda/reduce.cuh"

namespace glint::cuda {
namespace {

constexpr int kWarps = 8, kBlock = kWarps * kWarp;
constexpr int kRun = 4, kStride = kWarp * kRun;  // columns of a lane, and of a warp, at once

struct Narrow {
  const float* x;
  float* out;
  std::int64_t x_stride, out_stride, m, n;
  int k;
  bool adds;
};

// Elements [column, column + kRun) of a row of x; zeros past k. kAligned: k is a multiple of kRun,
// and rows of x and of the weight begin where such runs may be read at once.
template <bool kAligned>
__device__ void load_run(float (&v)[kRun], const float* x, int column, int k) {
  if constexpr (kAligned) {
    const float4 run = column < k ? *reinterpret_cast<const float4*>(x + column) : float4{};
    v[0] = run.x, v[1] = run.y, v[2] = run.z, v[3] = run.w;
  } else {
#pragma unroll
    for (int i = 0; i < kRun; ++i) v[i] = column + i < k ? x[column + i] : 0.0f;
  }
}

// load_run() of row `n` of the weight.
template <WeightFormat kFormat, bool kAligned>
__device__ void load_weights(float (&v)[kRun], const WeightView& w, std::int64_t n, int column,
                             int k) {
  if constexpr (kFormat == WeightFormat::kF32) {
    load_run<kAligned>(v, reinterpret_cast<const float*>(w.data) + n * k, column, k);
  } else if constexpr (kFormat == WeightFormat::kBF16 && kAligned) {
    const uint2 pairs =
        column < k ? *reinterpret_cast<const uint2*>(w.data + 2 * (n * k + column)) : uint2{};
    v[0] = __uint_as_float(pairs.x << 16), v[1] = __uint_as_float(pairs.x & 0xffff0000u);
    v[2] = __uint_as_float(pairs.y << 16), v[3] = __uint_as_float(pairs.y & 0xffff0000u);
  } else {
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      v[i] = column + i < k ? weight_at<kFormat>(w, n, column + i, k) : 0.0f;
    }
  }
}

template <WeightFormat kFormat, int kRows, int kColumns, bool kAligned>
__global__ void __launch_bounds__(kBlock) narrow_kernel(const Narrow p, const WeightView w) {
  __shared__ float slices[kWarps][kRows * kColumns];
  let_next_start();
  wait_for_inputs();
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const std::int64_t row = blockIdx.x * std::int64_t{kRows};
  const std::int64_t first = blockIdx.y * std::int64_t{kColumns};
  const int steps = (p.k + kStride - 1) / kStride, each = (steps + kWarps - 1) / kWarps;
  const int end = min((warp + 1) * each, steps);
  const float* rows[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) rows[i] = p.x + min(row + i, p.m - 1) * p.x_stride;
  float sums[kRows][kColumns] = {};
#pragma unroll 2
  for (int step = warp * each; step < end; ++step) {
    const int column = step * kStride + lane * kRun;
    float weights[kColumns][kRun];
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      load_weights<kFormat, kAligned>(weights[j], w, min(first + j, p.n - 1), column, p.k);
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      float x[kRun];
      load_run<kAligned>(x, rows[i], column, p.k);
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
#pragma unroll
        for (int r = 0; r < kRun; ++r) sums[i][j] = fmaf(x[r], weights[j][r], sums[i][j]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kRows * kColumns; ++i) {
    const float sum = warp_sum(sums[i / kColumns][i % kColumns]);
    if (lane == 0) slices[warp][i] = sum;
  }
  __syncthreads();
  const int i = threadIdx.x;
  if (i >= kRows * kColumns || row + i / kColumns >= p.m || first + i % kColumns >= p.n) return;
  float sum = 0;
#pragma unroll
  for (int s = 0; s < kWarps; ++s) sum += slices[s][i];
  float& to = p.out[(row + i / kColumns) * p.out_stride + first + i % kColumns];
  to = p.adds ? to + sum : sum;
}

template <WeightFormat kFormat, bool kAligned>
void launch_aligned(const Narrow& p, const WeightView& w, const Gpu& gpu) {
  const auto shape = [&](int rows, int columns) {
    return LaunchShape{.grid = dim3(static_cast<unsigned>((p.m + rows - 1) / rows),
                                    static_cast<unsigned>((p.n + columns - 1) / columns)),
                       .block = kBlock};
  };
  if (p.m <= 2) {
    launch_dependent(narrow_kernel<kFormat, 1, 2, kAligned>, shape(1, 2), gpu, p, w);
  } else if (p.m <= 64) {
    launch_dependent(narrow_kernel<kFormat, 4, 2, kAligned>, shape(4, 2), gpu, p, w);
  } else {
    launch_dependent(narrow_kernel<kFormat, 8, 4, kAligned>, shape(8, 4), gpu, p, w);
  }
}

template <WeightFormat kFormat>
void launch(const Narrow& p, const WeightView& w, const Gpu& gpu) {
  const auto is_aligned = [](const void* at) {
    return reinterpret_cast<std::uintptr_t>(at) % 16 == 0;
  };
  const bool aligned =
      is_aligned(p.x) && p.x_stride % kRun == 0 && is_aligned(w.data) && p.k % kRun == 0;
  aligned ? launch_aligned<kFormat, true>(p, w, gpu) : launch_aligned<kFormat, false>(p, w, gpu);
}

}  // namespace

bool is_narrow(const LinearArgs& args) {
  return args.x.dtype == DType::kF32 && args.weight.rows <= kMostNarrow;
}

void launch_narrow_linear(const LinearArgs& args, const Gpu& gpu) {
  if (args.out.size() == 0) return;
  const WeightView w = first_view(args.weight);
  const Narrow p = {.x = args.x.ptr<float>(),
                    .out = args.out.ptr<float>(),
                    .x_stride = args.x.stride[0],
                    .out_stride = args.out.stride[0],
                    .m = args.x.dim(0),
                    .n = args.weight.rows,
                    .k = static_cast<int>(args.weight.cols),
                    .adds = args.accumulate};
  switch (w.format) {
    case WeightFormat::kF32:
      return launch<WeightFormat::kF32>(p, w, gpu);
    case WeightFormat::kBF16:
      return launch<WeightFormat::kBF16>(p, w, gpu);
    case WeightFormat::kFp8Block:
      return launch<WeightFormat::kFp8Block>(p, w, gpu);
    case WeightFormat::kNvfp4:
      return launch<WeightFormat::kNvfp4>(p, w, gpu);
  }
}

}  // namespace glint::cuda
