// rope: some thread blocks for each token, a thread for some pairs of all of its heads.
#include <algorithm>

#include "backends/cuda/dependent_launch.cuh"
#include "backends/cuda/elementwise/elementwise.h"
#include "backends/cuda/vec.cuh"

namespace glint::cuda {
namespace {

constexpr int kBlock = 128;

template <class T>
struct Rows {
  T* x;
  std::int64_t token_stride, head_stride;
  std::int64_t heads, pairs;
  bool interleaved;
};

template <class T>
__global__ void __launch_bounds__(kBlock)
    rope_kernel(Rows<T> r, const Rows<T> other, const std::int32_t* positions, const float* table) {
  let_next_start();
  wait_for_inputs();
  const std::int32_t position = positions[blockIdx.x];
  if (position < 0) return;
  if (blockIdx.y == 1) r = other;
  const float* cos = table + position * r.pairs * 2;
  const float* sin = cos + r.pairs;
  for (std::int64_t i = blockIdx.z * kBlock + threadIdx.x; i < r.heads * r.pairs;
       i += gridDim.z * kBlock) {
    const std::int64_t j = i % r.pairs;
    T* head = r.x + blockIdx.x * r.token_stride + i / r.pairs * r.head_stride;
    T* first = head + (r.interleaved ? 2 * j : j);
    T* second = first + (r.interleaved ? 1 : r.pairs);
    const float a = as_float(*first), b = as_float(*second);
    *first = rounded<T>(a * cos[j] - b * sin[j]);
    *second = rounded<T>(b * cos[j] + a * sin[j]);
  }
}

template <class T>
Rows<T> rows_of(const RopeArgs& args) {
  return {.x = reinterpret_cast<T*>(args.x.data),
          .token_stride = args.x.stride[0],
          .head_stride = args.x.stride[1],
          .heads = args.x.dim(1),
          .pairs = args.x.dim(2) / 2,
          .interleaved = args.interleaved};
}

void launch(const RopeArgs& args, const RopeArgs* other, const Gpu& gpu) {
  if (args.x.size() == 0) return;
  const auto blocks_for = [](const RopeArgs& args) {
    return (args.x.dim(1) * args.x.dim(2) / 2 + kBlock - 1) / kBlock;
  };
  // Few tokens are divided among as many thread blocks as there are multiprocessors.
  const std::int64_t tokens = args.x.dim(0),
                     most = std::max(blocks_for(args), blocks_for(other ? *other : args)),
                     parts = std::clamp<std::int64_t>(gpu.num_sms / tokens, 1, most);
  with_elements(args.x, [&]<class T>(T*) {
    launch_small(
        rope_kernel<T>,
        {.grid = dim3(static_cast<unsigned>(tokens), other ? 2 : 1, static_cast<unsigned>(parts)),
         .block = kBlock},
        gpu, rows_of<T>(args), rows_of<T>(other ? *other : args),
        args.positions.ptr<std::int32_t>(), args.table.ptr<float>());
  });
}

}  // namespace

void launch_rope(const RopeArgs& args, const Gpu& gpu) { launch(args, nullptr, gpu); }

void launch_rope_pair(const RopePair& pair, const Gpu& gpu) { launch(pair.one, &pair.other, gpu); }

}  // namespace glint::cuda
