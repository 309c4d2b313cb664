#include "backends/cuda/dependent_launch.cuh"
#include "backends/cuda/elementwise/elementwise.h"
#include "backends/cuda/vec.cuh"

namespace glint::cuda {
namespace {

constexpr int kBlock = 128;
constexpr std::int64_t kBlockElements = kBlock * kVec;

unsigned blocks_for(std::int64_t elements) {
  return static_cast<unsigned>((elements + kBlockElements - 1) / kBlockElements);
}

// Rows of a table: the id of the first, and how many there are.
struct TableRows {
  std::int32_t first = 0;
  std::int64_t count = 0;
};

// out[r] = table[ids[r] - first], or zeros where that is no row. A thread block for each row (x)
// and kBlockElements of its columns (y).
template <class T, class Out>
__global__ void __launch_bounds__(kBlock)
    gather_kernel(const std::int32_t* ids, const T* table, TableRows rows, Out* out,
                  std::int64_t columns) {
  const std::int64_t c = blockIdx.y * kBlockElements + threadIdx.x * kVec, left = columns - c;
  if (left <= 0) return;
  float v[kVec] = {};
  const std::int64_t row = std::int64_t{ids[blockIdx.x]} - rows.first;
  if (row >= 0 && row < rows.count) load(v, table + row * columns + c, left);
  store(out + blockIdx.x * columns + c, v, left);
}

template <class T, class Out>
void launch_gather(const Tensor& ids, const T* table, TableRows rows, Out* out,
                   std::int64_t columns, const Gpu& gpu) {
  const dim3 grid(static_cast<unsigned>(ids.dim(0)), blocks_for(columns));
  gather_kernel<<<grid, kBlock, 0, gpu.stream>>>(ids.ptr<std::int32_t>(), table, rows, out,
                                                 columns);
}

template <class X, class Y>
__global__ void __launch_bounds__(kBlock) add_kernel(X* x, const Y* y, std::int64_t size) {
  const std::int64_t at = blockIdx.x * kBlockElements + threadIdx.x * kVec, left = size - at;
  if (left <= 0) return;
  float a[kVec], b[kVec];
  load(a, x + at, left);
  load(b, y + at, left);
#pragma unroll
  for (int i = 0; i < kVec; ++i) a[i] += b[i];
  store(x + at, a, left);
}

// `out` may be `gate`: a thread writes what it alone has read.
template <class T>
__global__ void __launch_bounds__(kBlock)
    silu_mul_kernel(const T* gate, const T* up, T* out, std::int64_t size) {
  let_next_start();
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

void launch_embed(const EmbedArgs& args, const Gpu& gpu) {
  if (args.out.size() == 0) return;
  with_elements(args.table, [&](const auto* table) {
    with_elements(args.out, [&](auto* out) {
      launch_gather(args.ids, table, {args.first, args.table.dim(0)}, out, args.out.dim(1), gpu);
    });
  });
}

void launch_gather_rows(const GatherRowsArgs& args, const Gpu& gpu) {
  if (args.out.size() == 0) return;
  with_elements(args.x, [&]<class T>(const T* x) {
    launch_gather(args.rows, x, {0, args.x.dim(0)}, reinterpret_cast<T*>(args.out.data),
                  args.out.dim(1), gpu);
  });
}

void launch_add(const AddArgs& args, const Gpu& gpu) {
  const std::int64_t size = args.x.size();
  if (size == 0) return;
  with_elements(args.x, [&](auto* x) {
    with_elements(args.y, [&](const auto* y) {
      add_kernel<<<blocks_for(size), kBlock, 0, gpu.stream>>>(x, y, size);
    });
  });
}

void launch_silu_mul(const SiluMulArgs& args, const Gpu& gpu) {
  const std::int64_t size = args.out.size();
  if (size == 0) return;
  with_elements(args.out, [&]<class T>(T* out) {
    launch_in_order(silu_mul_kernel<T>, {.grid = dim3(blocks_for(size)), .block = kBlock}, gpu,
                    reinterpret_cast<const T*>(args.gate.data),
                    reinterpret_cast<const T*>(args.up.data), out, size);
  });
}

}  // namespace glint::cuda
