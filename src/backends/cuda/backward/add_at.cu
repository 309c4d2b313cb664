// Sums at places that several rows have: the rows' numbers are sorted by place, in order of
// themselves at the same place, and a thread block adds those of one place.
#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "backends/cuda/backward/temporaries.h"
#include "backends/cuda/check_cuda.h"
#include "backends/cuda/vec.cuh"

namespace glint::cuda {
namespace {

constexpr int kBlock = 128;

// Rows without a place come last, as rows of place `none`.
__global__ void __launch_bounds__(kBlock)
    number_rows(const std::int32_t* places, const std::int32_t* limit, int count, unsigned none,
                unsigned* keys, int* numbers) {
  const int r = static_cast<int>(blockIdx.x * kBlock + threadIdx.x);
  if (r >= count) return;
  const bool has_place = (!limit || r < *limit) && places[r] >= 0;
  keys[r] = has_place ? static_cast<unsigned>(places[r]) : none;
  numbers[r] = r;
}

struct Rows {
  float* data;
  std::int64_t stride;
};

// A thread block for each sorted row (x), of which the first of a place adds all, and for some
// columns (y).
__global__ void __launch_bounds__(kBlock)
    add_at(const unsigned* keys, const int* numbers, int count, unsigned none, Rows from, Rows to,
           std::int64_t columns) {
  const int first = static_cast<int>(blockIdx.x);
  const unsigned place = keys[first];
  if (place == none || (first > 0 && keys[first - 1] == place)) return;
  const std::int64_t c = (blockIdx.y * std::int64_t{kBlock} + threadIdx.x) * kVec;
  const std::int64_t left = columns - c;
  if (left <= 0) return;
  float* const out = to.data + place * to.stride + c;
  float sum[kVec], v[kVec];
  load(sum, out, left);
  for (int i = first; i < count && keys[i] == place; ++i) {
    load(v, from.data + numbers[i] * from.stride + c, left);
#pragma unroll
    for (int j = 0; j < kVec; ++j) sum[j] += v[j];
  }
  store(out, sum, left);
}

unsigned* keys_of(const Tensor& x) { return reinterpret_cast<unsigned*>(x.data); }

// Without `memory`: how many bytes it takes.
void sort_rows(const AddAtTemporaries& rows, unsigned none, void* memory, std::size_t& bytes,
               cudaStream_t stream) {
  check_cuda(cub::DeviceRadixSort::SortPairs(
                 memory, bytes, keys_of(rows.unsorted_keys), keys_of(rows.keys),
                 rows.unsorted_numbers.ptr<int>(), rows.numbers.ptr<int>(),
                 static_cast<int>(rows.keys.dim(0)), 0, std::bit_width(none), stream),
             "sort rows by place");
}

}  // namespace

AddAtTemporaries::AddAtTemporaries(std::int64_t rows, std::int64_t places, Arena& scratch) {
  for (Tensor* const x : {&unsorted_keys, &keys, &unsorted_numbers, &numbers}) {
    *x = scratch.take(DType::kI32, {rows});
  }
  std::size_t bytes = 0;
  sort_rows(*this, static_cast<unsigned>(places), nullptr, bytes, nullptr);
  sort = scratch.take(DType::kU8, {static_cast<std::int64_t>(bytes)});
}

void launch_add_at(const AddAtArgs& args, Arena& scratch, const Gpu& gpu) {
  const auto count = static_cast<int>(args.from.dim(0));
  const std::int64_t columns = args.from.dim(1);
  if (count == 0 || columns == 0) return;
  const Arena::Scope scope(scratch);
  const AddAtTemporaries memory(count, args.to.dim(0), scratch);
  const auto none = static_cast<unsigned>(args.to.dim(0));
  const auto blocks = static_cast<unsigned>((count + kBlock - 1) / kBlock);
  number_rows<<<blocks, kBlock, 0, gpu.stream>>>(args.places.ptr<std::int32_t>(), args.limit, count,
                                                 none, keys_of(memory.unsorted_keys),
                                                 memory.unsorted_numbers.ptr<int>());
  auto bytes = static_cast<std::size_t>(memory.sort.size());
  sort_rows(memory, none, memory.sort.data, bytes, gpu.stream);
  const std::int64_t across = kBlock * kVec;
  const dim3 grid(static_cast<unsigned>(count),
                  static_cast<unsigned>((columns + across - 1) / across));
  add_at<<<grid, kBlock, 0, gpu.stream>>>(keys_of(memory.keys), memory.numbers.ptr<int>(), count,
                                          none, {args.from.ptr<float>(), args.from.stride[0]},
                                          {args.to.ptr<float>(), args.to.stride[0]}, columns);
}

void launch_embed_back(const EmbedBackArgs& args, Arena& scratch, const Gpu& gpu) {
  if (args.dtable) {
    launch_add_at({.places = args.op.ids, .from = args.dout, .to = args.dtable}, scratch, gpu);
  }
  launch_zero(args.dout, nullptr, gpu);
}

void launch_gather_rows_back(const GatherRowsBackArgs& args, Arena& scratch, const Gpu& gpu) {
  launch_add_at({.places = args.op.rows, .from = args.dout, .to = args.dx}, scratch, gpu);
  launch_zero(args.dout, nullptr, gpu);
}

}  // namespace glint::cuda
