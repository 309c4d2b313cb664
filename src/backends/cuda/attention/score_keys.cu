// The indexer's scores on the tensor cores: keys are the rows of their instructions, heads the
// columns, and codes of both are exact as bf16. A warp scores 16 keys at a time.
#include <algorithm>
#include <type_traits>

#include "backends/cuda/attention/score_keys.cuh"
#include "backends/cuda/dependent_launch.cuh"
#include "backends/cuda/reduce.cuh"

namespace glint::cuda {
namespace {

constexpr int kWarps = 8, kBlock = kWarps * kWarp;
constexpr int kBlocksAtOnce = 2;         // of a multiprocessor
constexpr int kTile = 16;                // keys of a warp at a time
constexpr std::int64_t kMostTiles = 32;  // of a warp

struct Query {
  alignas(16) bf16 values[kMostIndexHeads][kIndexDim + 8];  // padded against bank conflicts
  float weights[kMostIndexHeads];
};

// A warp's heads of a query on their way: four neighbouring columns of a lane.
struct HeadsOfWarp {
  static constexpr int kCount = kMostIndexHeads / kWarps;
  Columns q[kCount];
  float weights[kCount];

  __device__ static int head(int i) { return i * kWarps + static_cast<int>(threadIdx.x) / kWarp; }

  // Past the last head the last one again, which counts nothing.
  __device__ void load(const KeyScores& s, std::int64_t token) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const std::int64_t row = token * s.heads + min(head(i), s.heads - 1);
      q[i] = *reinterpret_cast<const Columns*>(s.q + row * kIndexDim + threadIdx.x % kWarp * 4);
      weights[i] = head(i) < s.heads ? s.weights[row] * s.weight_scale : 0.0f;
    }
  }
  // For fp8 keys as the query's codes say.
  template <class Key>
  __device__ void store(Query& query) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float scale = scale_of<Key>(q[i]);
      auto* const to = reinterpret_cast<__nv_bfloat162*>(query.values[head(i)]);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        to[threadIdx.x % kWarp * 2 + j] = quantized<Key>(q[i].pairs[j], scale);
      }
      if (threadIdx.x % kWarp == 0) query.weights[head(i)] = weights[i] * scale;
    }
  }
};

// Keys of a warp on their way: two of a lane.
template <WeightFormat kFormat, class Key>
struct KeyTile : LaneKeys<kFormat, Key> {
  std::int32_t slots[2];

  __device__ void find(const std::int32_t* pages, int base, int visible) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const auto own = static_cast<unsigned>(base + half * 8) + threadIdx.x % kWarp / 4;
      const unsigned key = min(own, static_cast<unsigned>(visible - 1));
      slots[half] = slot_in(pages, key);
    }
  }
  __device__ void load_found(const KeyScores& s) {
#pragma unroll
    for (int half = 0; half < 2; ++half) this->load(s, half, slots[half]);
  }
};

template <WeightFormat kFormat, class Key>
__global__ void __launch_bounds__(kBlock, kBlocksAtOnce)
    score_keys_kernel(const KeyScores s, const int tiles) {
  __shared__ Query query;
  let_next_start();
  wait_for_inputs();
  using Keys = Codes<kFormat>;
  const std::int64_t token = s.first_token + blockIdx.y;
  HeadsOfWarp heads;
  heads.load(s, token);
  const int visible = s.positions[token] + 1;
  const std::int32_t* const pages = s.page_table + s.seqs[token] * s.max_pages;
  const int first = static_cast<int>(blockIdx.x) * kWarps * kTile * tiles;
  if (visible <= s.k || first >= visible) return;
  const int warp = threadIdx.x / kWarp, g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
  // The next keys are on their way while these are summed up; where those after them lie is known.
  constexpr int kApart = kWarps * kTile;
  int base = first + warp * kTile;
  const int end = min(visible, first + kApart * tiles);
  KeyTile<kFormat, Key> keys;
  keys.find(pages, base, visible);
  keys.load_found(s);
  keys.find(pages, base + kApart, visible);
  heads.store<Key>(query);
  __syncthreads();

  uint4 q[kHeadBlocks][kChunks];
  float2 weights[kHeadBlocks];
#pragma unroll
  for (int j = 0; j < kHeadBlocks; ++j) {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const bf16* const from = &query.values[j * 8 + g][Keys::column(t, c)];
      q[j][c] = *reinterpret_cast<const uint4*>(from);
    }
    weights[j] = {query.weights[j * 8 + 2 * t], query.weights[j * 8 + 2 * t + 1]};
  }
  float* const out = s.scores + blockIdx.y * s.stride;
  for (; base < end; base += kApart) {
    const float scales[2] = {keys.scales[0], keys.scales[1]};
    float dots[kHeadBlocks][4] = {};
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      std::uint32_t a[4], b[4];
      keys.codes[0].pairs(c, a);
      keys.codes[1].pairs(c, b);
#pragma unroll
      for (int j = 0; j < kHeadBlocks; ++j) multiply_add(dots[j], a, b, q[j][c]);
    }
    if (base + kApart < end) {
      keys.load_found(s);
      keys.find(pages, base + 2 * kApart, visible);
    }
    float scores[2] = {};
    sum_heads(
        dots[0], [&](int j) { return weights[j]; }, scores);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int key = base + half * 8 + g;
      if (t == 0 && key < visible) out[key] = scores[half] * scales[half];
    }
  }
}

}  // namespace

bool can_score_keys(const SelectKeysArgs& args) {
  return args.q && args.q.dtype == DType::kBF16 && args.q.dim(1) <= kMostIndexHeads &&
         args.q.dim(2) == kIndexDim && reinterpret_cast<std::uintptr_t>(args.q.data) % 8 == 0 &&
         args.cache.format != IndexFormat::kF32 &&
         reinterpret_cast<std::uintptr_t>(args.cache.data) % 16 == 0 &&
         args.cache.stride() % 16 == 0;
}

void launch_score_keys(const KeyScores& s, IndexFormat format, std::int64_t tokens,
                       std::int64_t most_keys, const Gpu& gpu) {
  // A thread block loads a query for all of its keys, so it has as many of them as leaves one for
  // each place that there is.
  const std::int64_t all = tokens * ((most_keys + kWarps * kTile - 1) / (kWarps * kTile));
  const std::int64_t places = std::int64_t{kBlocksAtOnce} * gpu.num_sms;
  const std::int64_t tiles = std::min((all + places - 1) / places, kMostTiles);
  const LaunchShape shape = {
      .grid = dim3(static_cast<unsigned>((most_keys + kWarps * kTile * tiles - 1) /
                                         (kWarps * kTile * tiles)),
                   static_cast<unsigned>(tokens)),
      .block = kBlock};
  const auto kernel = format == IndexFormat::kFp8
                          ? score_keys_kernel<WeightFormat::kFp8Block, std::uint8_t>
                          : score_keys_kernel<WeightFormat::kBF16, bf16>;
  launch_dependent(kernel, shape, gpu, s, static_cast<int>(tiles));
}

}  // namespace glint::cuda
