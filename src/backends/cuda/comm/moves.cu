// Moves within a group of GPUs, through windows (windows.h).
#include <algorithm>
#include <numeric>

#include "backends/cuda/check_cuda.h"
#include "backends/cuda/comm/collectives.h"
#include "backends/cuda/comm/windows.cuh"
#include "backends/cuda/dependent_launch.cuh"
#include "base/check.h"

namespace glint::cuda {
namespace {

constexpr int kThreads = 512;
// A gather of so many bytes is of one thread block: where a rank is lost, they come all or not.
constexpr std::int64_t kWholeBytes = 8 << 10;

template <class Unit>
__device__ inline Unit load_far(const Unit* p) {
  return __ldcg(p);
}

// Units of every rank to all; of one `root` to the others if it is not negative.
template <class Unit>
__global__ void __launch_bounds__(kThreads)
    gather(const __grid_constant__ Windows windows, const Unit* mine, Unit* all, std::int64_t size,
           std::int64_t each, int root) {
  Turns turns(windows);
  const bool tells = root < 0 || root == windows.rank;
  for (std::int64_t at = blockIdx.x * each; at < size; at += gridDim.x * each) {
    const std::int64_t n = min(each, size - at);
    Unit* const told = turns.mine<Unit>();
    const bool tells_now = tells && !turns.has_ended();
    for (std::int64_t i = threadIdx.x; tells_now && i < n; i += kThreads) told[i] = mine[at + i];
    const bool came = turns.meet();
    for (int r = 0; r < windows.size; ++r) {
      const bool takes =
          root < 0 ? r != windows.rank || mine != all + r * size : r == root && r != windows.rank;
      const Unit* const theirs = turns.slice<Unit>(r);
      Unit* const to = root < 0 ? all + r * size : all;
      for (std::int64_t i = threadIdx.x; takes && i < n; i += kThreads)
        to[at + i] = came ? load_far(theirs + i) : Unit{};
    }
    turns.next();
  }
}

// ExchangeArgs on the GPU; rows and strides in units.
struct Exchange {
  const std::int32_t* rows;     // null: row i is row i
  const std::int32_t* offsets;  // rows of `offset_stride`
  std::int64_t offset_stride;
  std::int32_t first[kMostWindows + 1];
  std::int64_t x_rows, x_stride, width, out_rows;
  bool backwards;

  __device__ std::int32_t begin_of(int from, int to) const {
    return offsets[from * offset_stride + first[to]];
  }
  __device__ std::int32_t dealt(int from, int to) const {
    return begin_of(from, to + 1) - begin_of(from, to);
  }
  // The number of rows that `rank` of `size` sends.
  __device__ std::int64_t rows_of(int rank, int size) const {
    if (!backwards) return begin_of(rank, size);
    std::int64_t sum = 0;
    for (int s = 0; s < size; ++s) sum += dealt(s, rank);
    return sum;
  }
};

// Rows [begin, begin + count) of what a rank sends, which become rows of `out` from `at` on.
struct Part {
  std::int64_t begin, count, at;
};

// The rows of `other` for `rank` (comm/host_rows.h).
__device__ inline Part part_of(const Exchange& x, int other, int rank) {
  std::int64_t before = 0;
  if (!x.backwards) {
    for (int r = 0; r < other; ++r) before += x.dealt(r, rank);
    return {x.begin_of(other, rank), x.dealt(other, rank), before};
  }
  for (int s = 0; s < rank; ++s) before += x.dealt(s, other);
  return {before, x.dealt(rank, other), x.begin_of(rank, other)};
}

// to[i] = x[rows[begin + i]] of the block, for `count` rows.
template <class Unit>
__device__ inline void pack(const Exchange& e, const Unit* x, std::int64_t begin,
                            std::int64_t count, Unit* to) {
  for (std::int64_t i = threadIdx.x; i < count * e.width; i += kThreads) {
    const std::int64_t row = i / e.width, from = e.rows ? e.rows[begin + row] : begin + row;
    if (from >= 0 && from < e.x_rows) to[i] = x[from * e.x_stride + i % e.width];
  }
}

template <class Unit>
__global__ void __launch_bounds__(kThreads)
    exchanged(const __grid_constant__ Windows windows, const Exchange e, const Unit* x, Unit* out,
              std::int64_t most_each) {
  Turns turns(windows);
  __shared__ Part parts[kMostWindows];
  __shared__ std::int64_t sent[kMostWindows];
  const auto other = static_cast<int>(threadIdx.x);
  if (other < windows.size) {
    parts[other] = part_of(e, other, windows.rank);
    sent[other] = e.rows_of(other, windows.size);
  }
  __syncthreads();
  std::int64_t most = 0;
  for (int r = 0; r < windows.size; ++r) most = max(most, sent[r]);
  // Few rows are dealt out to all blocks.
  const std::int64_t even = (most + gridDim.x - 1) / gridDim.x, each = min(even, most_each);
  for (std::int64_t at = blockIdx.x * each; at < most; at += gridDim.x * each) {
    const std::int64_t own = min(max(sent[windows.rank] - at, std::int64_t{0}), each);
    if (!turns.has_ended()) pack(e, x, at, own, turns.mine<Unit>());
    const bool came = turns.meet();
    for (int r = 0; r < windows.size; ++r) {
      const Part& p = parts[r];
      const std::int64_t begin = max(p.begin, at);
      std::int64_t count = min(p.begin + p.count, at + each) - begin;
      count = min(count, e.out_rows - (p.at + begin - p.begin));
      if (count <= 0) continue;
      const Unit* const theirs = turns.slice<Unit>(r) + (begin - at) * e.width;
      Unit* const to = out + (p.at + begin - p.begin) * e.width;
      for (std::int64_t i = threadIdx.x; i < count * e.width; i += kThreads)
        to[i] = came ? load_far(theirs + i) : Unit{};
    }
    turns.next();
  }
}

// By one thread block, of which one thread looks: that is a trip to the host's memory, and what it
// says is so of the whole.
__global__ void __launch_bounds__(kThreads)
    cleared(const std::uint32_t* ended, unsigned char* to, std::int64_t size) {
  if (!__syncthreads_or(threadIdx.x == 0 && heard(ended) != 0)) return;
  for (std::int64_t i = threadIdx.x; i < size; i += kThreads) to[i] = 0;
}

template <class Unit>
__global__ void __launch_bounds__(kThreads)
    packed(const Exchange e, const Unit* x, Unit* to, std::int64_t count) {
  for (std::int64_t row = blockIdx.x; row < count; row += gridDim.x)
    pack(e, x, row, 1, to + row * e.width);
}

// f(a unit of copying), the largest of which all of these are multiples.
template <class F>
void with_unit(std::initializer_list<std::int64_t> bytes, F&& f) {
  std::int64_t common = sizeof(uint4);
  for (const std::int64_t b : bytes) common = std::gcd(common, b);
  if (common == 16) return f(uint4());
  if (common >= 4) return f(static_cast<unsigned>(0));
  if (common == 2) return f(static_cast<unsigned short>(0));
  f(static_cast<unsigned char>(0));
}

std::int64_t address(const Tensor& x) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(x.data));
}
std::int64_t row_bytes(const Tensor& x) { return (x.rank > 1 ? x.dim(1) : 1) * size_of(x.dtype); }
std::int64_t stride_bytes(const Tensor& x) { return x.stride[0] * size_of(x.dtype); }

// Where nothing moves between GPUs.
void copy_rows(const Tensor& from, const Tensor& to, const Gpu& gpu) {
  if (from.data == to.data) return;
  check_cuda(cudaMemcpyAsync(to.data, from.data, from.bytes().size(), cudaMemcpyDeviceToDevice,
                             gpu.stream),
             "copy what a group of one gathers");
}

void launch_gather(const Windows& windows, const Tensor& mine, const Tensor& all, int root,
                   const Gpu& gpu) {
  const auto bytes = static_cast<std::int64_t>(mine.bytes().size());
  if (bytes == 0) return;
  if (windows.size == 1) return copy_rows(mine, all, gpu);
  with_unit({address(mine), address(all), bytes}, [&](auto unit) {
    using Unit = decltype(unit);
    const std::int64_t size = bytes / static_cast<std::int64_t>(sizeof(Unit));
    const std::int64_t even = (size + kWindowBlocks - 1) / kWindowBlocks;
    const std::int64_t least = std::max<std::int64_t>(kThreads, kWholeBytes / sizeof(Unit));
    const std::int64_t each =
        std::clamp<std::int64_t>(even, std::min(size, least), kSliceBytes / sizeof(Unit));
    const std::int64_t blocks = std::min<std::int64_t>((size + each - 1) / each, kWindowBlocks);
    launch_in_order(gather<Unit>, {.grid = dim3(static_cast<unsigned>(blocks)), .block = kThreads},
                    gpu, windows, reinterpret_cast<const Unit*>(mine.data),
                    reinterpret_cast<Unit*>(all.data), size, each, root);
  });
}

template <class Unit>
Exchange in_units(const Tensor& x, const Tensor& rows) {
  constexpr auto kUnit = static_cast<std::int64_t>(sizeof(Unit));
  return {.rows = rows ? rows.ptr<std::int32_t>() : nullptr,
          .offsets = nullptr,
          .offset_stride = 0,
          .first = {},
          .x_rows = x.dim(0),
          .x_stride = stride_bytes(x) / kUnit,
          .width = row_bytes(x) / kUnit,
          .out_rows = 0,
          .backwards = false};
}

}  // namespace

void launch_all_gather(const Windows& windows, const Tensor& mine, const Tensor& all,
                       const Gpu& gpu) {
  launch_gather(windows, mine, all, -1, gpu);
}

void launch_broadcast(const Windows& windows, const Tensor& x, int root, const Gpu& gpu) {
  launch_gather(windows, x, x, root, gpu);
}

void launch_exchange(const Windows& windows, const ExchangeArgs& args, const Gpu& gpu) {
  const std::int64_t row = row_bytes(args.x);
  GLINT_CHECK(windows.size > 1, "a group of one has nobody to exchange rows with");
  GLINT_CHECK(row <= static_cast<std::int64_t>(kSliceBytes),
              "exchange: a row is larger than what a thread block tells at once");
  with_unit({address(args.x), address(args.out), row, stride_bytes(args.x)}, [&](auto unit) {
    using Unit = decltype(unit);
    Exchange e = in_units<Unit>(args.x, args.rows);
    e.offsets = args.offsets.ptr<std::int32_t>();
    e.offset_stride = args.offsets.stride[0];
    std::copy(args.first.begin(), args.first.end(), e.first);
    e.out_rows = args.out.dim(0);
    e.backwards = args.backwards;
    launch_in_order(exchanged<Unit>, {.grid = dim3(kWindowBlocks), .block = kThreads}, gpu, windows,
                    e, reinterpret_cast<const Unit*>(args.x.data),
                    reinterpret_cast<Unit*>(args.out.data),
                    std::min<std::int64_t>(kSliceBytes / row, 16));
  });
}

void launch_clear_if(const std::uint32_t* ended, const Tensor& x, const Gpu& gpu) {
  const auto size = static_cast<std::int64_t>(x.bytes().size());
  if (size == 0) return;
  launch_in_order(cleared, {.grid = dim3(1), .block = kThreads}, gpu, ended,
                  reinterpret_cast<unsigned char*>(x.data), size);
}

void launch_pack_rows(const Tensor& x, const Tensor& rows, const Tensor& to, const Gpu& gpu) {
  if (to.size() == 0) return;
  with_unit({address(x), address(to), row_bytes(x), stride_bytes(x)}, [&](auto unit) {
    using Unit = decltype(unit);
    const std::int64_t blocks = std::min<std::int64_t>(to.dim(0), 1024);
    launch_in_order(packed<Unit>, {.grid = dim3(static_cast<unsigned>(blocks)), .block = kThreads},
                    gpu, in_units<Unit>(x, rows), reinterpret_cast<const Unit*>(x.data),
                    reinterpret_cast<Unit*>(to.data), to.dim(0));
  });
}

}  // namespace glint::cuda
