// A thread block for each row and each kBlock * kVec of its columns.
#include "backends/cuda/elementwise/elementwise.h"
#include "backends/cuda/vec.cuh"

namespace glint::cuda {
namespace {

constexpr int kBlock = 128;

dim3 grid_of(const Tensor& rows) {
  constexpr std::int64_t kColumns = kBlock * kVec;
  return dim3(static_cast<unsigned>(rows.dim(0)),
              static_cast<unsigned>((rows.dim(1) + kColumns - 1) / kColumns));
}

__device__ std::int64_t first_column() {
  return (std::int64_t{blockIdx.y} * kBlock + threadIdx.x) * kVec;
}

template <class T>
__global__ void __launch_bounds__(kBlock)
    embed_kernel(const std::int32_t* ids, const T* table, std::int64_t table_stride, bf16* out,
                 std::int64_t out_stride, std::int64_t columns) {
  const std::int64_t c = first_column(), left = columns - c;
  if (left <= 0) return;
  float v[kVec] = {};
  if (const std::int32_t id = ids[blockIdx.x]; id >= 0) load(v, table + id * table_stride + c, left);
  store(out + blockIdx.x * out_stride + c, v, left);
}

// `out` may be `gate`: a thread writes what it alone has read.
__global__ void __launch_bounds__(kBlock)
    silu_mul_kernel(const bf16* gate, std::int64_t gate_stride, const bf16* up,
                    std::int64_t up_stride, bf16* out, std::int64_t out_stride,
                    std::int64_t columns) {
  const std::int64_t row = blockIdx.x, c = first_column(), left = columns - c;
  if (left <= 0) return;
  float g[kVec], u[kVec];
  load(g, gate + row * gate_stride + c, left);
  load(u, up + row * up_stride + c, left);
#pragma unroll
  for (int i = 0; i < kVec; ++i) g[i] = silu_mul(g[i], u[i]);
  store(out + row * out_stride + c, g, left);
}

}  // namespace

void launch_embed(const EmbedArgs& args, cudaStream_t stream) {
  if (args.out.size() == 0) return;
  with_elements(args.table, [&](const auto* table) {
    embed_kernel<<<grid_of(args.out), kBlock, 0, stream>>>(
        args.ids.ptr<std::int32_t>(), table, args.table.stride[0], bf16_data(args.out),
        args.out.stride[0], args.out.dim(1));
  });
}

void launch_silu_mul(const SiluMulArgs& args, cudaStream_t stream) {
  if (args.out.size() == 0) return;
  silu_mul_kernel<<<grid_of(args.out), kBlock, 0, stream>>>(
      bf16_data(args.gate), args.gate.stride[0], bf16_data(args.up), args.up.stride[0],
      bf16_data(args.out), args.out.stride[0], args.out.dim(1));
}

}  // namespace glint::cuda
