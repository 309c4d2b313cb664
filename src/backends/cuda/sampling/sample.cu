// sample: the steps of the contract, each a sweep over the row. Compiled without fused
// multiply-adds (ops/sampling_math.h).
#include "backends/cuda/reduce.cuh"
#include "backends/cuda/sampling/sampling.h"
#include "ops/sampling_math.h"

namespace glint::cuda {
namespace {

constexpr int kThreads = 1024;
using Units = unsigned long long;

// Penalties and what they are of.
struct Counts {
  const std::int32_t* by_seat;  // null: none
  std::int64_t ids;             // of a seat
  const std::int32_t *seats, *penalties, *drafts;

  // The count of `id` for row r: that of its seat and its drafts.
  __device__ std::int32_t of(std::int64_t r, int id) const {
    std::int32_t count = by_seat[seats[r] * ids + id];
    for (std::int64_t d = r; d >= 0 && drafts[d] >= 0; --d) {
      count += drafts[d] == id ? kCountOfSaid : 0;
    }
    return count;
  }
};

struct Rows {
  const float* logits;
  std::int64_t stride;
  const float *scales, *top_p, *min_p;
  const std::int32_t *top_k, *positions;
  const std::int32_t* seeds;
  const std::int32_t* masks;  // null: none
  const std::int32_t* mask_rows;
  std::int64_t mask_words;
  const std::int32_t *edit_begins, *edit_ids;  // null: none
  const float* edit_values;
  Counts counts;
  float* work;  // null: there is nothing to edit
  std::int64_t vocab;
  int num_ids;
  std::int32_t* tokens;
};

// The ids with a larger key than `key`, and of those with this key the ids up to `last`.
struct Prefix {
  std::uint32_t key = 0;
  int last = 0x7fffffff;

  __device__ bool has(float x, int id) const {
    const std::uint32_t k = key_of(x);
    return k > key || (k == key && id <= last);
  }
};

struct Row {
  const float* x;
  int count;
  float max, scale, min_p;
  Prefix prefix;

  __device__ float shifted(int id) const { return (x[id] - max) * scale; }
  // 0: the id may not come.
  __device__ float weight(int id) const {
    const float w = exp_weight(shifted(id));
    return w >= min_p && prefix.has(x[id], id) ? w : 0.0f;
  }
};

__device__ Units block_sum_of(Units value) {
  return block_reduce<kThreads>(value, [](Units a, Units b) { return a + b; });
}

// Shortens row.prefix until measure(row, id) over it just reaches `target`: digit by digit of the
// last key, then by id among those that have it. It stays if nothing reaches the target.
template <class Measure>
__device__ void shorten(Row& row, Units target, const Measure& measure) {
  __shared__ Units bins[256];
  __shared__ Units reached;  // above the digits that are known
  __shared__ std::uint32_t known;
  __shared__ bool found;
  __shared__ int last;
  if (threadIdx.x == 0) reached = 0, known = 0, found = true, last = 0x7fffffff;
  for (int shift = 24; shift >= 0; shift -= 8) {
    if (threadIdx.x < 256) bins[threadIdx.x] = 0;
    __syncthreads();
    const std::uint32_t above = shift == 24 ? 0 : known >> (shift + 8);
    for (int i = threadIdx.x; i < row.count; i += kThreads) {
      const std::uint32_t key = key_of(row.x[i]);
      if (shift < 24 && key >> (shift + 8) != above) continue;
      const Units m = measure(row, i);
      if (m > 0) atomicAdd(&bins[key >> shift & 255], m);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int digit = 255;
      while (digit >= 0 && reached + bins[digit] < target) reached += bins[digit--];
      found = digit >= 0;
      known |= static_cast<std::uint32_t>(found ? digit : 0) << shift;
    }
    __syncthreads();
    if (!found) return;
  }
  const std::uint32_t key = known;
  Units left = target - reached;
  for (int first = 0; first < row.count; first += kThreads) {
    const int i = first + static_cast<int>(threadIdx.x);
    const Units m = i < row.count && key_of(row.x[i]) == key ? measure(row, i) : 0;
    const Units all = block_sum_of(m);
    if (all < left) {
      left -= all;
      continue;
    }
    // One of this sweep's ids is the last.
    if (threadIdx.x == 0) {
      for (int j = first;; ++j) {
        if (key_of(row.x[j]) != key) continue;
        const Units own = measure(row, j);
        if (own >= left) {
          last = j;
          break;
        }
        left -= own;
      }
    }
    break;
  }
  __syncthreads();
  row.prefix = {key, last};
  __syncthreads();
}

// Makes `x`, if it is not null, the row after its edits and mask; true if all of it were numbers.
__device__ bool edit(const Rows& rows, std::int64_t r, float* x) {
  const float* logits = rows.logits + r * rows.stride;
  bool numbers = true, finite = false;
  for (int i = threadIdx.x; i < rows.num_ids; i += kThreads) {
    const float z = logits[i];
    numbers = numbers && z < INFINITY;
    finite = finite || z > -INFINITY;
    if (x) x[i] = z;
  }
  numbers = !__syncthreads_or(!numbers) && __syncthreads_or(finite);
  if (rows.edit_begins) {
    const int end = rows.edit_begins[r + 1];
    for (int e = rows.edit_begins[r] + static_cast<int>(threadIdx.x); e < end; e += kThreads) {
      x[rows.edit_ids[e]] += rows.edit_values[e];
    }
    __syncthreads();
  }
  const Counts& counts = rows.counts;
  if (counts.by_seat && counts.seats[r] >= 0) {
    for (int i = threadIdx.x; i < rows.num_ids; i += kThreads) {
      const std::int32_t count = counts.of(r, i);
      if (count != 0) x[i] = penalized(x[i], count, counts.penalties + 6 * r);
    }
    __syncthreads();
  }
  const int mask = rows.masks ? rows.mask_rows[r] : -1;
  if (mask >= 0) {
    const std::int32_t* words = rows.masks + mask * rows.mask_words;
    for (int i = threadIdx.x; i < rows.num_ids; i += kThreads) {
      if (!(static_cast<std::uint32_t>(words[i / 32]) >> (i % 32) & 1)) x[i] = -INFINITY;
    }
    __syncthreads();
  }
  return numbers;
}

__global__ void __launch_bounds__(kThreads) sample_kernel(const Rows rows) {
  const std::int64_t r = blockIdx.x;
  float* const work = rows.work ? rows.work + r * rows.vocab : nullptr;
  const bool numbers = edit(rows, r, work);
  const float* const x = work ? work : rows.logits + r * rows.stride;
  Rank best = kNoRank;
  for (int i = threadIdx.x; i < rows.num_ids; i += kThreads) {
    const Rank rank = rank_of(x[i], static_cast<std::uint32_t>(i));
    best = rank > best ? rank : best;
  }
  const int likeliest = static_cast<int>(index_of(block_best<kThreads>(best)));
  const float max = x[likeliest], scale = rows.scales[r];
  if (!numbers || max == -INFINITY || scale == 0) {
    if (threadIdx.x == 0) {
      rows.tokens[r] = !numbers ? kNotNumbers : max == -INFINITY ? kNoToken : likeliest;
    }
    return;
  }
  Row row = {.x = x,
             .count = rows.num_ids,
             .max = max,
             .scale = scale,
             .min_p = rows.min_p[r],
             .prefix = {}};
  if (rows.top_k[r] > 0) {
    shorten(row, static_cast<Units>(rows.top_k[r]),
            [](const Row& all, int i) -> Units { return all.weight(i) > 0 ? 1 : 0; });
  }
  if (rows.top_p[r] < 1) {
    const auto units = [](const Row& all, int i) -> Units { return weight_units(all.weight(i)); };
    Units own = 0;
    for (int i = threadIdx.x; i < row.count; i += kThreads) own += units(row, i);
    shorten(row, units_of_share(rows.top_p[r], block_sum_of(own)), units);
  }
  const std::uint64_t seed = both_halves(rows.seeds + 2 * r);
  best = kNoRank;
  for (int i = threadIdx.x; i < row.count; i += kThreads) {
    if (row.weight(i) == 0) continue;
    const auto id = static_cast<std::uint32_t>(i);
    const std::uint32_t bits = sample_bits(seed, static_cast<std::uint32_t>(rows.positions[r]), id);
    const Rank rank = rank_of(row.shifted(i) + gumbel_of(bits), id);
    best = rank > best ? rank : best;
  }
  best = block_best<kThreads>(best);
  if (threadIdx.x == 0) rows.tokens[r] = static_cast<std::int32_t>(index_of(best));
}

template <class T>
const T* data_of(const Tensor& tensor) {
  return tensor ? tensor.ptr<T>() : nullptr;
}

}  // namespace

void launch_sample(const SampleArgs& args, const Gpu& gpu) {
  const std::int64_t R = args.logits.dim(0);
  if (R == 0) return;
  const Rows rows = {.logits = args.logits.ptr<float>(),
                     .stride = args.logits.stride[0],
                     .scales = args.scales.ptr<float>(),
                     .top_p = args.top_p.ptr<float>(),
                     .min_p = args.min_p.ptr<float>(),
                     .top_k = args.top_k.ptr<std::int32_t>(),
                     .positions = args.positions.ptr<std::int32_t>(),
                     .seeds = args.seeds.ptr<std::int32_t>(),
                     .masks = data_of<std::int32_t>(args.masks),
                     .mask_rows = data_of<std::int32_t>(args.mask_rows),
                     .mask_words = args.masks ? args.masks.dim(1) : 0,
                     .edit_begins = data_of<std::int32_t>(args.edit_begins),
                     .edit_ids = data_of<std::int32_t>(args.edit_ids),
                     .edit_values = data_of<float>(args.edit_values),
                     .counts = {.by_seat = data_of<std::int32_t>(args.counts),
                                .ids = args.counts ? args.counts.dim(1) : 0,
                                .seats = data_of<std::int32_t>(args.seats),
                                .penalties = data_of<std::int32_t>(args.penalties),
                                .drafts = data_of<std::int32_t>(args.drafts)},
                     .work = args.work ? args.work.ptr<float>() : nullptr,
                     .vocab = args.logits.dim(1),
                     .num_ids = static_cast<int>(args.num_ids),
                     .tokens = args.tokens.ptr<std::int32_t>()};
  sample_kernel<<<static_cast<unsigned>(R), kThreads, 0, gpu.stream>>>(rows);
}

}  // namespace glint::cuda
