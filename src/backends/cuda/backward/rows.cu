// Backward passes of what works on rows alone.
#include "backends/cuda/backward/backward.h"
#include "backends/cuda/elements.h"
#include "backends/cuda/vec.cuh"

namespace glint::cuda {
namespace {

constexpr int kBlock = 128;
constexpr std::int64_t kBlockElements = kBlock * kVec;

// A thread block for each row (x) and some of its columns (y).
dim3 grid_of(std::int64_t rows, std::int64_t columns) {
  return dim3(static_cast<unsigned>(rows),
              static_cast<unsigned>((columns + kBlockElements - 1) / kBlockElements));
}
__device__ std::int64_t column() {
  return blockIdx.y * kBlockElements + threadIdx.x * std::int64_t{kVec};
}

template <class T>
struct Rows {
  T* data;
  std::int64_t stride;

  __device__ T* at(std::int64_t row, std::int64_t column) const {
    return data + row * stride + column;
  }
};
template <class T>
Rows<T> rows_of(const Tensor& x, T*) {
  return {reinterpret_cast<T*>(x.data), x.stride[0]};
}
Rows<float> rows_of(const Tensor& x) { return {x.ptr<float>(), x.stride[0]}; }

// blockIdx.z counts what lies `step` elements apart in a row.
__global__ void __launch_bounds__(kBlock)
    zero_rows(Rows<float> x, std::int64_t step, const std::int32_t* limit, std::int64_t columns) {
  const std::int64_t left = columns - column();
  if (left <= 0 || (limit && blockIdx.x >= *limit)) return;
  constexpr float kZeros[kVec] = {};
  store(x.at(blockIdx.x, blockIdx.z * step + column()), kZeros, left);
}

__global__ void __launch_bounds__(kBlock)
    add_rows(Rows<float> dx, Rows<float> dy, std::int64_t columns) {
  const std::int64_t c = column(), left = columns - c;
  if (left <= 0) return;
  float x[kVec], y[kVec];
  load(x, dx.at(blockIdx.x, c), left);
  load(y, dy.at(blockIdx.x, c), left);
#pragma unroll
  for (int i = 0; i < kVec; ++i) y[i] += x[i];
  store(dy.at(blockIdx.x, c), y, left);
}

// dgate may be dout, whose zeros are written first.
template <class T>
__global__ void __launch_bounds__(kBlock)
    silu_mul_back(Rows<T> gate, Rows<T> up, Rows<float> dout, Rows<float> dgate, Rows<float> dup,
                  std::int64_t columns) {
  const std::int64_t t = blockIdx.x, c = column(), left = columns - c;
  if (left <= 0) return;
  constexpr float kZeros[kVec] = {};
  float v[kVec], u[kVec], g[kVec], to_gate[kVec], to_up[kVec];
  load(v, gate.at(t, c), left);
  load(u, up.at(t, c), left);
  load(g, dout.at(t, c), left);
  store(dout.at(t, c), kZeros, left);
  load(to_gate, dgate.at(t, c), left);
  load(to_up, dup.at(t, c), left);
#pragma unroll
  for (int i = 0; i < kVec; ++i) {
    const float s = 1 / (1 + expf(-v[i]));
    to_up[i] += g[i] * v[i] * s;
    to_gate[i] += g[i] * u[i] * s * (1 + v[i] * (1 - s));
  }
  store(dgate.at(t, c), to_gate, left);
  store(dup.at(t, c), to_up, left);
}

__global__ void __launch_bounds__(kBlock)
    rope_back(float* dx, std::int64_t token_stride, std::int64_t head_stride, std::int64_t heads,
              std::int64_t pairs, bool interleaved, const std::int32_t* positions,
              const float* table) {
  const std::int32_t position = positions[blockIdx.x];
  if (position < 0) return;
  const float *const cos = table + position * pairs * 2, *const sin = cos + pairs;
  for (std::int64_t i = threadIdx.x; i < heads * pairs; i += kBlock) {
    const std::int64_t j = i % pairs;
    float* const head = dx + blockIdx.x * token_stride + i / pairs * head_stride;
    float* const first = head + (interleaved ? 2 * j : j);
    float* const second = first + (interleaved ? 1 : pairs);
    const float a = *first, b = *second;
    *first = a * cos[j] + b * sin[j];
    *second = b * cos[j] - a * sin[j];
  }
}

// The gradient of a cache's row goes to what was written there.
__global__ void __launch_bounds__(kBlock)
    write_latent_back(const std::int32_t* slots, float* dcache, int latent, int rope,
                      Rows<float> dlatent, Rows<float> dk_rope) {
  const std::int32_t slot = slots[blockIdx.x];
  if (slot < 0) return;
  float* const row = dcache + slot * std::int64_t{latent + rope};
  for (int i = threadIdx.x; i < latent + rope; i += kBlock) {
    float* const to = i < latent ? dlatent.at(blockIdx.x, i) : dk_rope.at(blockIdx.x, i - latent);
    *to += row[i];
    row[i] = 0;
  }
}

}  // namespace

void launch_zero(const Tensor& x, const std::int32_t* limit, const Gpu& gpu) {
  if (x.size() == 0) return;
  dim3 grid = grid_of(x.dim(0), x.dim(-1));
  if (x.rank == 3) grid.z = static_cast<unsigned>(x.dim(1));
  zero_rows<<<grid, kBlock, 0, gpu.stream>>>(rows_of(x), x.rank == 3 ? x.stride[1] : 0, limit,
                                             x.dim(-1));
}

void launch_add_back(const AddBackArgs& args, const Gpu& gpu) {
  if (args.dx.size() == 0) return;
  const std::int64_t columns = args.dx.dim(1);
  add_rows<<<grid_of(args.dx.dim(0), columns), kBlock, 0, gpu.stream>>>(rows_of(args.dx),
                                                                        rows_of(args.dy), columns);
}

void launch_silu_mul_back(const SiluMulBackArgs& args, const Gpu& gpu) {
  if (args.dout.size() == 0) return;
  const std::int64_t columns = args.dout.dim(1);
  with_elements(args.op.gate, [&](auto* gate) {
    silu_mul_back<<<grid_of(args.dout.dim(0), columns), kBlock, 0, gpu.stream>>>(
        rows_of(args.op.gate, gate), rows_of(args.op.up, gate), rows_of(args.dout),
        rows_of(args.dgate), rows_of(args.dup), columns);
  });
}

void launch_rope_back(const RopeBackArgs& args, const Gpu& gpu) {
  const Tensor& dx = args.dx;
  if (dx.size() == 0) return;
  rope_back<<<static_cast<unsigned>(dx.dim(0)), kBlock, 0, gpu.stream>>>(
      dx.ptr<float>(), dx.stride[0], dx.stride[1], dx.dim(1), dx.dim(2) / 2, args.op.interleaved,
      args.op.positions.ptr<std::int32_t>(), args.op.table.ptr<float>());
}

void launch_write_latent_back(const WriteLatentBackArgs& args, const Gpu& gpu) {
  if (args.dlatent.dim(0) == 0) return;
  const LatentCache& cache = args.op.cache;
  write_latent_back<<<static_cast<unsigned>(args.dlatent.dim(0)), kBlock, 0, gpu.stream>>>(
      args.op.slots.ptr<std::int32_t>(), args.dcache.ptr<float>(), cache.latent_dim, cache.rope_dim,
      rows_of(args.dlatent), rows_of(args.dk_rope));
}

}  // namespace glint::cuda
