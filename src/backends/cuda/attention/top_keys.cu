// The k best of a token's scores, in the order of their keys. A cluster for each token: its thread
// blocks take a stretch of the keys each, into shared memory if that has room, and find the worst
// value that is still selected digit by digit, from histograms that they add up. The digits are of
// what values are above the least, as many of them begin alike. Where values tie,
// the earlier keys are in. Which keys these are depends on the scores alone.
#include <algorithm>
#include <cmath>

#include "backends/cuda/attention/attention.h"
#include "backends/cuda/attention/choose_attention.h"
#include "backends/cuda/attention/top_keys.cuh"
#include "backends/cuda/cluster.cuh"
#include "backends/cuda/dependent_launch.cuh"
#include "backends/cuda/reduce.cuh"

namespace glint::cuda {
namespace {

constexpr int kBlock = 512, kWarps = kBlock / kWarp;
constexpr int kBits = 8, kBins = 1 << kBits, kDigits = 32 / kBits;
// Tokens from which on, in all and of each sequence, those of prompts are scored together.
constexpr std::int64_t kFewTokens = 128, kPromptTokens = 32;

struct TopKeys {
  KeyScores scores;
  std::int32_t* out;  // [T, k]
};

// Keys above and at the threshold.
struct Counts {
  int above, equal;
};
struct Range {
  std::uint32_t least, most;
};

struct Shared {
  alignas(16) int bins[kDigits][kBins];  // of this thread block
  alignas(16) int all_bins[kBins];       // of the cluster, for one digit
  Range range;                           // of this thread block
  Range ranges[kWarps];
  Counts of_block;
  Counts of_warps[kWarps];
};

// Larger scores have larger values; the order of rank_of, without the keys.
__device__ std::uint32_t ordered(float score) {
  return static_cast<std::uint32_t>(rank_of(score, 0) >> 32);
}

__device__ Range range_of_warp(const Range& range) {
  return {__reduce_min_sync(kAllLanes, range.least), __reduce_max_sync(kAllLanes, range.most)};
}

// The least and the largest of the cluster's values.
template <class Values>
__device__ Range find_range(const Cluster& cluster, Shared& shared, const Values& values,
                            int count) {
  constexpr Range kNone = {~0u, 0};
  const unsigned lane = threadIdx.x % kWarp;
  Range range = kNone;
#pragma unroll 4
  for (int i = threadIdx.x; i < count; i += kBlock) {
    const std::uint32_t value = values(i);
    range = {min(range.least, value), max(range.most, value)};
  }
  range = range_of_warp(range);
  if (lane == 0) shared.ranges[threadIdx.x / kWarp] = range;
  __syncthreads();
  range = range_of_warp(lane < kWarps ? shared.ranges[lane] : kNone);
  if (cluster.num_blocks() == 1) return range;
  if (threadIdx.x == 0) shared.range = range;
  cluster.sync();
  const bool there = lane < cluster.num_blocks();
  return range_of_warp(there ? *cluster.map_shared_rank(&shared.range, lane) : kNone);
}

// A digit, how many values have it, and how many of those are still wanted.
struct Digit {
  int value, count, wanted;
};

// The digit of the value of rank `wanted`, by one warp.
__device__ Digit find_digit(const int* bins, int wanted) {
  // Lane 0 has the largest digits.
  constexpr int kEach = kBins / kWarp;
  const int lane = threadIdx.x % kWarp, lowest = kBins - (lane + 1) * kEach;
  int counts[kEach], own = 0;
#pragma unroll
  for (int i = 0; i < kEach; i += 4) {
    const int4 four = *reinterpret_cast<const int4*>(bins + lowest + i);
    counts[i] = four.x, counts[i + 1] = four.y, counts[i + 2] = four.z, counts[i + 3] = four.w;
    own += four.x + four.y + four.z + four.w;
  }
  const int end = warp_prefix_sum(own);
  const int owner = __ffs(__ballot_sync(kAllLanes, wanted <= end)) - 1;
  Digit digit = {lowest + kEach - 1, counts[kEach - 1], wanted - (end - own)};
#pragma unroll
  for (int i = kEach - 1; i > 0; --i) {
    if (digit.value == lowest + i && counts[i] < digit.wanted) {
      digit = {lowest + i - 1, counts[i - 1], digit.wanted - counts[i]};
    }
  }
  return {__shfl_sync(kAllLanes, digit.value, owner), __shfl_sync(kAllLanes, digit.count, owner),
          __shfl_sync(kAllLanes, digit.wanted, owner)};
}

// A value that fewer than k + 1 of the cluster's are above, and fewer than k only if it is one of
// them. Each round finds the next digit of the value of rank k. The bins are zeros.
template <class Values>
__device__ std::uint32_t find_threshold(const Cluster& cluster, Shared& shared,
                                        const Values& values, int count, int k) {
  const Range range = find_range(cluster, shared, values, count);
  std::uint32_t prefix = 0;  // of the digits so far
  int wanted = k, shift = 32 - __clz(static_cast<int>(range.most - range.least));
  for (int round = 0; shift > 0; ++round) {
    const int bits = min(kBits, shift);
    shift -= bits;
    int* const bins = shared.bins[round];
#pragma unroll 4
    for (int i = threadIdx.x; i < count; i += kBlock) {
      const std::uint32_t digits = (values(i) - range.least) >> shift;
      if (digits >> bits == prefix) atomicAdd(&bins[digits & ((1 << bits) - 1)], 1);
    }
    cluster.num_blocks() == 1 ? __syncthreads() : cluster.sync();
    const int* all_bins = bins;
    if (cluster.num_blocks() > 1) {
      for (int i = threadIdx.x; i < kBins; i += kBlock) {
        int sum = 0;
        for (unsigned b = 0; b < cluster.num_blocks(); ++b) {
          sum += *cluster.map_shared_rank(&bins[i], b);
        }
        shared.all_bins[i] = sum;
      }
      all_bins = shared.all_bins;
      __syncthreads();
    }
    const Digit digit = find_digit(all_bins, wanted);
    prefix = prefix << bits | static_cast<std::uint32_t>(digit.value);
    wanted = digit.wanted;
    if (wanted == digit.count) return range.least + (prefix << shift) - 1;  // all that begin so
  }
  return range.least + prefix;
}

// Pages that so many neighbouring keys can lie in.
__host__ __device__ constexpr std::int64_t most_pages(std::int64_t keys) {
  return keys / kPageSize + 2;
}

static_assert(sizeof(Shared) + 4 * most_pages(40000) <= top_keys::kOthers);

// kHeld: a thread block's values, and then the pages of their keys, are in its shared memory, which
// has room for `capacity` of them.
template <bool kHeld>
__global__ void __launch_bounds__(kBlock) top_keys_kernel(const TopKeys p, int capacity) {
  extern __shared__ std::uint32_t held[];
  __shared__ Shared shared;
  let_next_start();
  for (int i = threadIdx.x; i < kDigits * kBins; i += kBlock) shared.bins[0][i] = 0;
  wait_for_inputs();
  const auto cluster = this_cluster();
  const int blocks = static_cast<int>(cluster.num_blocks()),
            rank = static_cast<int>(cluster.block_rank());
  const std::int64_t row = blockIdx.x / blocks, token = p.scores.first_token + row;
  const std::int64_t visible = std::int64_t{p.scores.positions[token]} + 1;
  const std::int32_t* const pages = p.scores.page_table + p.scores.seqs[token] * p.scores.max_pages;
  const int k = p.scores.k;
  std::int32_t* const out = p.out + token * k;
  if (visible <= k) {
    for (int j = rank * kBlock + static_cast<int>(threadIdx.x); j < k; j += blocks * kBlock) {
      out[j] = j < visible ? slot_in(pages, static_cast<unsigned>(j)) : -1;
    }
    return;
  }
  const std::int64_t each = (visible + blocks - 1) / blocks, first = rank * each;
  const int count = static_cast<int>(max(min(each, visible - first), std::int64_t{0}));
  const float* const scores = p.scores.scores + row * p.scores.stride + first;
  const auto* const own_pages = pages + first / kPageSize;
  const int of_first = static_cast<int>(first % kPageSize);
  if constexpr (kHeld) {
    const int num_pages = (of_first + count + kPageSize - 1) / kPageSize;
    int i = threadIdx.x;
    const std::int32_t page = i < num_pages ? own_pages[i] : 0;  // on its way beside the scores
#pragma unroll 4
    for (int j = threadIdx.x; j < count; j += kBlock) held[j] = ordered(scores[j]);
    if (i < num_pages) held[capacity + i] = static_cast<std::uint32_t>(page);
    for (i += kBlock; i < num_pages; i += kBlock) {
      held[capacity + i] = static_cast<std::uint32_t>(own_pages[i]);
    }
  }
  const auto values = [&](int i) { return kHeld ? held[i] : ordered(scores[i]); };
  const auto slot_of = [&](int i) {
    const auto key = static_cast<unsigned>(of_first + i);
    return slot_in(kHeld ? reinterpret_cast<const std::int32_t*>(held + capacity) : own_pages, key);
  };
  __syncthreads();  // the bins are zeros
  const std::uint32_t threshold = find_threshold(cluster, shared, values, count, k);

  // Warps take stretches, so that what is before a key is what is in the stretches before and in
  // the lanes before.
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int stretch = (count + kWarps * kWarp - 1) / (kWarps * kWarp) * kWarp;
  const int begin = min(warp * stretch, count), end = min(begin + stretch, count);
  Counts own = {0, 0};
#pragma unroll 4
  for (int i = begin + lane; i < end; i += kWarp) {
    const std::uint32_t value = values(i);
    own.above += value > threshold, own.equal += value == threshold;
  }
  own.above = warp_sum(own.above), own.equal = warp_sum(own.equal);
  if (lane == 0) shared.of_warps[warp] = own;
  __syncthreads();
  // A lane for each warp.
  const Counts of_warp = lane < kWarps ? shared.of_warps[lane] : Counts{0, 0};
  Counts before = {warp_sum(lane < warp ? of_warp.above : 0),
                   warp_sum(lane < warp ? of_warp.equal : 0)};
  Counts all = {warp_sum(of_warp.above), warp_sum(of_warp.equal)};
  if (blocks > 1) {
    if (threadIdx.x == 0) shared.of_block = all;
    cluster.sync();
    all = {0, 0};
    for (int b = 0; b < blocks; ++b) {
      const Counts c = *cluster.map_shared_rank(&shared.of_block, b);
      all.above += c.above;
      if (b < rank) before.above += c.above, before.equal += c.equal;
    }
  }
  const int wanted = k - all.above;  // of the equal ones
#pragma unroll 4
  for (int i = begin + lane; i - lane < end; i += kWarp) {
    const std::uint32_t value = i < end ? values(i) : 0;
    const bool is_above = i < end && value > threshold, is_equal = i < end && value == threshold;
    const unsigned all_above = __ballot_sync(kAllLanes, is_above),
                   all_equal = __ballot_sync(kAllLanes, is_equal), lower = (1u << lane) - 1;
    const int above_before = before.above + __popc(all_above & lower),
              equal_before = before.equal + __popc(all_equal & lower);
    if (is_above || (is_equal && equal_before < wanted)) {
      out[above_before + min(equal_before, wanted)] = slot_of(i);
    }
    before.above += __popc(all_above), before.equal += __popc(all_equal);
  }
  cluster.meet();  // the others have read this block's counts
}

}  // namespace

void launch_choose_keys(const KeyScores& scores, std::int32_t* out, std::int64_t tokens,
                        std::int64_t most_keys, const Gpu& gpu) {
  const top_keys::Kernel chosen = top_keys::choose_kernel(tokens, most_keys, gpu.arch, gpu.num_sms);
  const auto kernel = chosen.capacity > 0 ? top_keys_kernel<true> : top_keys_kernel<false>;
  const auto bytes_for = [](std::int64_t keys) {
    return static_cast<int>((keys + most_pages(keys)) * std::int64_t{sizeof(std::uint32_t)});
  };
  // A failure shows as the launch's error.
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       bytes_for(top_keys::keys_of_block(gpu.arch)));
  int bytes = chosen.capacity > 0 ? bytes_for(chosen.capacity) : 0;
  // Thread blocks that start while others run find room on few multiprocessors, where they would
  // share the turns. More than half of one's memory leaves each its own.
  if (chosen.blocks == 1 && tokens <= gpu.num_sms) {
    bytes = std::max(bytes, static_cast<int>(gpu.arch.shared_bytes / 2));
  }
  const LaunchShape shape = {.grid = dim3(static_cast<unsigned>(tokens * chosen.blocks)),
                             .block = kBlock,
                             .shared = static_cast<std::size_t>(bytes),
                             .cluster = static_cast<unsigned>(chosen.blocks)};
  launch_dependent(kernel, shape, gpu, TopKeys{scores, out}, static_cast<int>(chosen.capacity));
}

namespace {

// No token sees more keys.
std::int64_t most_keys(const SelectKeysArgs& args) {
  return std::min(args.batch.page_table.dim(1) * kPageSize, args.batch.end);
}

}  // namespace

bool is_top_keys(const SelectKeysArgs& args) {
  return can_score_keys(args) && most_keys(args) * std::int64_t{sizeof(float)} <= kScoreBytes;
}

void launch_top_keys(const SelectKeysArgs& args, float* buffer, const Gpu& gpu) {
  const std::int64_t tokens = args.out.dim(0), keys = most_keys(args), heads = args.q.dim(1);
  if (args.out.size() == 0) return;
  KeyScores scores = {.q = bf16_data(args.q),
                      .weights = args.weights.ptr<float>(),
                      .heads = static_cast<int>(heads),
                      .k = static_cast<int>(args.out.dim(1)),
                      .weight_scale = 1.0f / std::sqrt(static_cast<float>(heads * args.q.dim(2))),
                      .positions = args.batch.positions.ptr<std::int32_t>(),
                      .seqs = args.batch.seqs.ptr<std::int32_t>(),
                      .page_table = args.batch.page_table.ptr<std::int32_t>(),
                      .max_pages = args.batch.page_table.dim(1),
                      .keys = index_rows(args.cache),
                      .first_token = 0,
                      .scores = buffer,
                      .stride = keys};
  constexpr std::int64_t kMostRows = 65535;  // of a grid
  const std::int64_t at_once =
      std::min(kScoreBytes / (keys * std::int64_t{sizeof(float)}), kMostRows);
  for (; scores.first_token < tokens; scores.first_token += at_once) {
    const std::int64_t now = std::min(at_once, tokens - scores.first_token);
    const bool of_prompts =
        gpu.arch.wgmma && now >= kFewTokens && now >= kPromptTokens * args.batch.page_table.dim(0);
    const auto launch_scores = of_prompts ? launch_score_prompt_keys : launch_score_keys;
    launch_scores(scores, args.cache.format, now, keys, gpu);
    launch_choose_keys(scores, args.out.ptr<std::int32_t>(), now, keys, gpu);
  }
}

}  // namespace glint::cuda
