// The indexer's scores on the tensor cores: keys are the rows of their instructions, heads the
// columns, and codes of both are exact as bf16. A warp scores 16 keys at a time.
//
// Order of summation, for every score: the columns of a dot product as codes.cuh has them, then
// the heads of a lane, then the lanes a tree.
#include <type_traits>

#include "backends/cuda/attention/top_keys.cuh"
#include "backends/cuda/cache/rows.cuh"
#include "backends/cuda/dependent_launch.cuh"
#include "backends/cuda/linear/codes.cuh"
#include "backends/cuda/reduce.cuh"

namespace glint::cuda {
namespace {

constexpr int kDim = kStep, kMostHeads = 32;  // of a query: rows of one step of a product
constexpr int kWarps = 8, kBlock = kWarps * kWarp;
constexpr int kTile = 16;                                  // keys of a warp at a time
constexpr std::int64_t kFewestTiles = 2, kMostTiles = 16;  // of a warp

struct Query {
  alignas(16) bf16 values[kMostHeads][kDim + 8];  // padded against bank conflicts
  float weights[kMostHeads];
};

// The query of a token, for fp8 keys as its codes say; a warp for each head.
template <class Key>
__device__ void load_query(const KeyScores& s, std::int64_t token, Query& query) {
  const int lane = threadIdx.x % kWarp;
  for (int h = threadIdx.x / kWarp; h < kMostHeads; h += kWarps) {
    float v[kDim / kWarp] = {}, weight = 0;
    if (h < s.heads) {
      const std::int64_t row = token * s.heads + h;
#pragma unroll
      for (int i = 0; i < kDim / kWarp; ++i) v[i] = as_float(s.q[row * kDim + lane + i * kWarp]);
      weight = s.weights[row] * s.weight_scale;
    }
    if constexpr (std::is_same_v<Key, std::uint8_t>) {
      float largest = 0;
      for (const float value : v) largest = fmaxf(largest, fabsf(value));
      const float scale = index_scale(warp_max(largest));
      for (float& value : v) value = e4m3_to_float(float_to_e4m3(value / scale));
      weight *= scale;
    }
#pragma unroll
    for (int i = 0; i < kDim / kWarp; ++i) {
      query.values[h][lane + i * kWarp] = __float2bfloat16_rn(v[i]);
    }
    if (lane == 0) query.weights[h] = weight;
  }
}

template <WeightFormat kFormat, class Key>
__global__ void __launch_bounds__(kBlock, 2) score_keys_kernel(const KeyScores s, const int tiles) {
  __shared__ Query query;
  let_next_start();
  wait_for_inputs();
  using Keys = Codes<kFormat>;
  const std::int64_t token = s.first_token + blockIdx.y;
  const std::int64_t visible = std::int64_t{s.positions[token]} + 1;
  const std::int64_t first = blockIdx.x * std::int64_t{kWarps * kTile} * tiles;
  if (visible <= s.k || first >= visible) return;
  load_query<Key>(s, token, query);
  __syncthreads();

  const int warp = threadIdx.x / kWarp, g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
  constexpr int kBlocks = kMostHeads / 8;
  std::uint32_t q[kBlocks][kChunks][4];
  float weights[kBlocks][2];
#pragma unroll
  for (int j = 0; j < kBlocks; ++j) {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const bf16* const from = &query.values[j * 8 + g][Keys::column(t, c)];
      Keys::arrange(*reinterpret_cast<const uint4*>(from), q[j][c]);
    }
    weights[j][0] = query.weights[j * 8 + 2 * t];
    weights[j][1] = query.weights[j * 8 + 2 * t + 1];
  }
  const std::int32_t* const pages = s.page_table + s.seqs[token] * s.max_pages;
  float* const out = s.scores + blockIdx.y * s.stride;
  for (int tile = 0; tile < tiles; ++tile) {
    const std::int64_t base = first + (tile * kWarps + warp) * kTile;
    if (base >= visible) return;
    Keys keys[2];
    std::int64_t slots[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t key = min(base + half * 8 + g, visible - 1);
      slots[half] = std::int64_t{pages[key / kPageSize]} * kPageSize + key % kPageSize;
      const auto* row = reinterpret_cast<const std::byte*>(s.keys.key<Key>(slots[half]));
#pragma unroll
      for (int u = 0; u < Keys::kVectors; ++u) {
        keys[half].v[u] = load_once(row + 16 * Keys::unit(u, t));
      }
    }
    float dots[kBlocks][4] = {};
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      std::uint32_t a[4], b[4];
      keys[0].pairs(c, a);
      keys[1].pairs(c, b);
#pragma unroll
      for (int j = 0; j < kBlocks; ++j) multiply_add(dots[j], a, b, q[j][c]);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float score = 0;
#pragma unroll
      for (int j = 0; j < kBlocks; ++j) {
        score += weights[j][0] * fmaxf(0.0f, dots[j][half * 2]);
        score += weights[j][1] * fmaxf(0.0f, dots[j][half * 2 + 1]);
      }
      score += __shfl_xor_sync(kAllLanes, score, 1);
      score += __shfl_xor_sync(kAllLanes, score, 2);
      const std::int64_t key = base + half * 8 + g;
      if (t != 0 || key >= visible) continue;
      if constexpr (std::is_same_v<Key, std::uint8_t>) score *= *s.keys.scale(slots[half]);
      out[key] = score;
    }
  }
}

}  // namespace

bool can_score_keys(const SelectKeysArgs& args) {
  return args.q && args.q.dtype == DType::kBF16 && args.q.dim(1) <= kMostHeads &&
         args.q.dim(2) == kDim && args.cache.format != IndexFormat::kF32 &&
         reinterpret_cast<std::uintptr_t>(args.cache.data) % 16 == 0 &&
         args.cache.stride() % 16 == 0;
}

void launch_score_keys(const KeyScores& s, IndexFormat format, std::int64_t tokens,
                       std::int64_t most_keys, const Gpu& gpu) {
  // A thread block loads a query for all of its keys, so it has many of them where there are many
  // thread blocks.
  const auto blocks = [&](std::int64_t tiles) {
    return tokens * ((most_keys + kWarps * kTile * tiles - 1) / (kWarps * kTile * tiles));
  };
  std::int64_t tiles = kFewestTiles;
  while (tiles < kMostTiles && blocks(2 * tiles) >= 8 * gpu.num_sms) tiles *= 2;
  const LaunchShape shape = {
      .grid = dim3(static_cast<unsigned>(blocks(tiles) / tokens), static_cast<unsigned>(tokens)),
      .block = kBlock};
  const auto kernel = format == IndexFormat::kFp8
                          ? score_keys_kernel<WeightFormat::kFp8Block, std::uint8_t>
                          : score_keys_kernel<WeightFormat::kBF16, bf16>;
  launch_dependent(kernel, shape, gpu, s, static_cast<int>(tiles));
}

}  // namespace glint::cuda
