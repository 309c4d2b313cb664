// select_keys: a thread block for each token, in one pass over its keys. The best keys so far and
// the next ones that beat the worst of them wait in shared memory; when it is full they are sorted
// and the best k stay. Ranks differ, so that the selection does not depend on the order of arrival.
//
// Scores: a lane for each head, which holds kKeysAtOnce dot products; d ascending, then a tree over
// the heads of a warp, then the warps' worth of heads in order.
#include <algorithm>
#include <bit>
#include <type_traits>

#include "backends/cuda/attention/attention.h"
#include "backends/cuda/attention/sort.cuh"
#include "backends/cuda/cache/rows.cuh"
#include "base/check.h"
#include "base/str.h"

namespace glint::cuda {
namespace {

constexpr int kBlock = 512, kWarps = kBlock / kWarp;
constexpr int kKeysAtOnce = 4;                // of a warp
constexpr int kRound = kWarps * kKeysAtOnce;  // keys of a block between two looks at the buffer

template <class Q>
struct Selection {
  const Q* q;            // [T, Hi, D]
  const float* weights;  // [T, Hi]
  int heads, dim;
  float weight_scale;  // Hi^-0.5 * D^-0.5
  const std::int32_t *positions, *seqs, *page_table;
  std::int64_t max_pages;
  IndexRows keys;
  std::int32_t* out;  // [T, k]
  int k, capacity;    // of the buffer: a power of two, at least k + kRound
};

// Shared memory of a block.
struct Parts {
  Rank* best;      // [capacity]
  float* q;        // [heads, dim + 1]: padded, so that lanes that read one d of their heads meet no
                   // bank twice
  float* weights;  // [heads]
  float* keys;     // [kRound, dim]
};
__host__ __device__ inline std::int64_t shared_bytes(std::int64_t capacity, std::int64_t heads,
                                                     std::int64_t dim) {
  return capacity * std::int64_t{sizeof(Rank)} +
         (heads * (dim + 2) + kRound * dim) * std::int64_t{sizeof(float)};
}

template <class Q>
__device__ Parts parts_of(const Selection<Q>& s, Rank* shared) {
  Parts parts = {.best = shared, .q = reinterpret_cast<float*>(shared + s.capacity)};
  parts.weights = parts.q + s.heads * (s.dim + 1);
  parts.keys = parts.weights + s.heads;
  return parts;
}

template <class Q>
__device__ std::int64_t slot_of(const Selection<Q>& s, std::int64_t key) {
  return slot_in(s.page_table + s.seqs[blockIdx.x] * s.max_pages, static_cast<unsigned>(key));
}

// The query of the block's token, quantised for fp8 keys; a warp for each head.
template <class Q, class Key>
__device__ void load_query(const Selection<Q>& s, const Parts& parts) {
  const int lane = threadIdx.x % kWarp;
  for (int h = threadIdx.x / kWarp; h < s.heads; h += kWarps) {
    const std::int64_t row = blockIdx.x * std::int64_t{s.heads} + h;
    const Q* from = s.q + row * s.dim;
    float* to = parts.q + h * (s.dim + 1);
    float weight = s.weights[row] * s.weight_scale;
    if constexpr (std::is_same_v<Key, std::uint8_t>) {
      float largest = 0;
      for (int d = lane; d < s.dim; d += kWarp) largest = fmaxf(largest, fabsf(as_float(from[d])));
      const float scale = index_scale(warp_max(largest));
      for (int d = lane; d < s.dim; d += kWarp) {
        to[d] = e4m3_to_float(float_to_e4m3(as_float(from[d]) / scale));
      }
      weight *= scale;
    } else {
      for (int d = lane; d < s.dim; d += kWarp) to[d] = as_float(from[d]);
    }
    if (lane == 0) parts.weights[h] = weight;
  }
}

// Puts kKeysAtOnce keys from `first` on, of `visible`, into `to` [kKeysAtOnce, dim] as f32, without
// their scales; past the end zeros. By a warp.
template <class Q, class Key>
__device__ void load_keys(const Selection<Q>& s, std::int64_t first, std::int64_t visible,
                          float* to) {
  for (int i = 0; i < kKeysAtOnce; ++i) {
    const bool there = first + i < visible;
    const Key* from = there ? s.keys.template key<Key>(slot_of(s, first + i)) : nullptr;
    for (int d = threadIdx.x % kWarp; d < s.dim; d += kWarp) {
      float value = 0;
      if constexpr (std::is_same_v<Key, std::uint8_t>) {
        if (there) value = e4m3_to_float(from[d]);
      } else {
        if (there) value = as_float(from[d]);
      }
      to[i * s.dim + d] = value;
    }
  }
  __syncwarp();
}

// sum_h weights[h] * max(0, dot(q[h], key)) of each of kKeysAtOnce keys, in every lane.
template <class Q>
__device__ void score_keys(const Selection<Q>& s, const Parts& parts, const float* keys,
                           float (&scores)[kKeysAtOnce]) {
#pragma unroll
  for (float& score : scores) score = 0;
  for (int first = 0; first < s.heads; first += kWarp) {
    const int h = first + static_cast<int>(threadIdx.x % kWarp);
    const float* q = parts.q + min(h, s.heads - 1) * (s.dim + 1);
    float dots[kKeysAtOnce] = {};
    for (int d = 0; d < s.dim; ++d) {
#pragma unroll
      for (int i = 0; i < kKeysAtOnce; ++i) dots[i] = fmaf(q[d], keys[i * s.dim + d], dots[i]);
    }
    const float weight = h < s.heads ? parts.weights[h] : 0.0f;
#pragma unroll
    for (int i = 0; i < kKeysAtOnce; ++i) scores[i] += warp_sum(weight * fmaxf(0.0f, dots[i]));
  }
}

// Leaves the k best of `count` <= capacity ranks in best[0 .. k), the best first.
template <class Q>
__device__ void keep_best(const Selection<Q>& s, Rank* best, int count) {
  for (int i = count + static_cast<int>(threadIdx.x); i < s.capacity; i += kBlock) {
    best[i] = kNoRank;
  }
  sort_descending<kBlock>(best, s.capacity);
}

// Leaves the k best keys of more than k visible ones in best[0 .. k).
template <class Q, class Key>
__device__ void select_best(const Selection<Q>& s, const Parts& parts, std::int64_t visible) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  load_query<Q, Key>(s, parts);
  __syncthreads();
  Rank threshold = kNoRank;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  float* keys = parts.keys + warp * kKeysAtOnce * s.dim;
  for (std::int64_t round = 0; round < visible; round += kRound) {
    const std::int64_t first = round + warp * kKeysAtOnce;
    load_keys<Q, Key>(s, first, visible, keys);
    float scores[kKeysAtOnce];
    score_keys(s, parts, keys, scores);
    __syncwarp();  // the keys have been read
#pragma unroll
    for (int i = 0; i < kKeysAtOnce; ++i) {
      if (lane != i || first + i >= visible) continue;
      float score = scores[i];
      if constexpr (std::is_same_v<Key, std::uint8_t>)
        score *= *s.keys.scale(slot_of(s, first + i));
      const Rank rank = rank_of(score, static_cast<std::uint32_t>(first + i));
      if (rank > threshold) parts.best[atomicAdd(&count, 1)] = rank;
    }
    __syncthreads();
    const int filled = count;
    __syncthreads();  // every thread knows it
    const bool last = round + kRound >= visible;
    if (!last && filled + kRound <= s.capacity) continue;
    keep_best(s, parts.best, filled);
    threshold = filled < s.k ? kNoRank : parts.best[s.k - 1];
    if (threadIdx.x == 0) count = min(filled, s.k);
    __syncthreads();
  }
}

template <class Q, class Key>
__global__ void __launch_bounds__(kBlock) select_keys_kernel(const Selection<Q> s) {
  extern __shared__ Rank shared[];
  const std::int64_t visible = std::int64_t{s.positions[blockIdx.x]} + 1;
  std::int32_t* out = s.out + blockIdx.x * std::int64_t{s.k};
  if (visible <= s.k) {
    for (int j = threadIdx.x; j < s.k; j += kBlock) {
      out[j] = j < visible ? static_cast<std::int32_t>(slot_of(s, j)) : -1;
    }
    return;
  }
  const Parts parts = parts_of(s, shared);
  select_best<Q, Key>(s, parts, visible);
  // Ascending keys: the largest complement first; the rest are zeros, which come last.
  for (int j = threadIdx.x; j < s.capacity; j += kBlock) {
    parts.best[j] = j < s.k ? Rank{~index_of(parts.best[j])} : kNoRank;
  }
  sort_descending<kBlock>(parts.best, s.capacity);
  for (int j = threadIdx.x; j < s.k; j += kBlock) {
    out[j] = static_cast<std::int32_t>(slot_of(s, ~static_cast<std::uint32_t>(parts.best[j])));
  }
}

template <class Q, class Key>
void launch(const Selection<Q>& selection, std::int64_t tokens, const Gpu& gpu) {
  const auto kernel = select_keys_kernel<Q, Key>;
  const std::int64_t bytes = shared_bytes(selection.capacity, selection.heads, selection.dim);
  GLINT_CHECK(bytes <= gpu.arch.shared_bytes,
              str("select_keys: ", selection.k, " keys of ", selection.heads, " heads of ",
                  selection.dim, " do not fit into shared memory"));
  // A failure shows as the launch's error.
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       static_cast<int>(bytes));
  kernel<<<static_cast<unsigned>(tokens), kBlock, static_cast<std::size_t>(bytes), gpu.stream>>>(
      selection);
}

std::int64_t capacity_for(std::int64_t k) {
  return std::bit_ceil(static_cast<std::uint32_t>(k + 4 * kRound));
}

template <class Q>
Selection<Q> selection_of(const SelectKeysArgs& args, const Q* q) {
  const std::int64_t heads = q ? args.q.dim(1) : 0, dim = args.cache.dim, k = args.out.dim(1);
  return {
      .q = q,
      .weights = q ? args.weights.ptr<float>() : nullptr,
      .heads = static_cast<int>(heads),
      .dim = static_cast<int>(dim),
      .weight_scale = 1.0f / std::sqrt(static_cast<float>(std::max<std::int64_t>(heads, 1) * dim)),
      .positions = args.batch.positions.ptr<std::int32_t>(),
      .seqs = args.batch.seqs.ptr<std::int32_t>(),
      .page_table = args.batch.page_table.ptr<std::int32_t>(),
      .max_pages = args.batch.page_table.dim(1),
      .keys = index_rows(args.cache),
      .out = args.out.ptr<std::int32_t>(),
      .k = static_cast<int>(k),
      .capacity = static_cast<int>(capacity_for(k))};
}

}  // namespace

Status supports_select_keys(const AttentionDims& dims, const Arch& arch) {
  const std::int64_t bytes =
      shared_bytes(capacity_for(dims.index_topk), dims.index_n_heads, dims.index_head_dim);
  if (bytes <= arch.shared_bytes) return Ok{};
  return Error{ErrorCode::kUnsupported,
               str("the cuda backend cannot select ", dims.index_topk, " keys with ",
                   dims.index_n_heads, " heads of ", dims.index_head_dim, ": that takes ", bytes,
                   " bytes of shared memory, and there are ", arch.shared_bytes,
                   "; run it with --backend cpu")};
}

void launch_select_keys(const SelectKeysArgs& args, const Gpu& gpu) {
  if (args.out.size() == 0) return;
  with_elements(args.q, [&](const auto* q) {
    with_cache_type(args.cache.format, [&]<class Key>(Key) {
      launch<std::remove_cvref_t<decltype(*q)>, Key>(selection_of(args, q), args.out.dim(0), gpu);
    });
  });
}

}  // namespace glint::cuda
