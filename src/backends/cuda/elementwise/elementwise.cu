#include "backends/cuda/elementwise/elementwise.h"
#include "backends/cuda/vec.cuh"

namespace glint::cuda {
namespace {

constexpr int kBlock = 128;
constexpr std::int64_t kBlockElements = kBlock * kVec;

unsigned blocks_for(std::int64_t elements) {
  return static_cast<unsigned>((elements + kBlockElements - 1) / kBlockElements);
}

// A thread block for each row (x) and kBlockElements of its columns (y).
template <class T, class Out>
__global__ void __launch_bounds__(kBlock)
    embed_kernel(const std::int32_t* ids, const T* table, Out* out, std::int64_t columns) {
  const std::int64_t c = blockIdx.y * kBlockElements + threadIdx.x * kVec, left = columns - c;
  if (left <= 0) return;
  float v[kVec] = {};
  if (const std::int32_t id = ids[blockIdx.x]; id >= 0) load(v, table + id * columns + c, left);
  store(out + blockIdx.x * columns + c, v, left);
}

// `out` may be `gate`: a thread writes what it alone has read.
__global__ void __launch_bounds__(kBlock)
    silu_mul_kernel(const bf16* gate, const bf16* up, bf16* out, std::int64_t size) {
  const std::int64_t at = blockIdx.x * kBlockElements + threadIdx.x * kVec, left = size - at;
  if (left <= 0) return;
  float g[kVec], u[kVec];
  load(g, gate + at, left);
  load(u, up + at, left);
#pragma unroll
  for (int i = 0; i < kVec; ++i) g[i] = silu_mul(g[i], u[i]);
  store(out + at, g, left);
}

}  // namespace

void launch_embed(const EmbedArgs& args, cudaStream_t stream) {
  if (args.out.size() == 0) return;
  const std::int64_t columns = args.out.dim(1);
  const dim3 grid(static_cast<unsigned>(args.out.dim(0)), blocks_for(columns));
  with_elements(args.table, [&](const auto* table) {
    with_elements(args.out, [&](auto* out) {
      embed_kernel<<<grid, kBlock, 0, stream>>>(args.ids.ptr<std::int32_t>(), table, out, columns);
    });
  });
}

void launch_silu_mul(const SiluMulArgs& args, cudaStream_t stream) {
  const std::int64_t size = args.out.size();
  if (size == 0) return;
  silu_mul_kernel<<<blocks_for(size), kBlock, 0, stream>>>(bf16_data(args.gate), bf16_data(args.up),
                                                           bf16_data(args.out), size);
}

}  // namespace glint::cuda
