// The k best of a token's scores, in the order of their keys. A cluster for each token: its thread
// blocks take a stretch of the keys each, into shared memory if that has room, and find the worst
// value that is still selected digit by digit, from histograms that they add up. Where values tie,
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
constexpr int kBits = 8, kBins = 1 << kBits;  // of a digit
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

struct Shared {
  int bins[2][kBins];   // of this thread block, for this digit and the next
  int all_bins[kBins];  // of the cluster
  int digit, rest;
  Counts of_block;
  Counts of_warps[kWarps];
};

// Larger scores have larger values; the order of rank_of, without the keys.
__device__ std::uint32_t ordered(float score) {
  return static_cast<std::uint32_t>(rank_of(score, 0) >> 32);
}

// The thread blocks of a cluster meet, which may be one alone.
__device__ void meet(const Cluster& cluster) {
  cluster.num_blocks() == 1 ? __syncthreads() : cluster.sync();
}

// The value of rank k among the cluster's: each round finds its next digit, and how many of the
// values that begin like it are still wanted.
template <class Values>
__device__ std::uint32_t find_threshold(const Cluster& cluster, Shared& shared,
                                        const Values& values, int count, int k) {
  std::uint32_t prefix = 0;
  int wanted = k;
  for (int i = threadIdx.x; i < kBins; i += kBlock) shared.bins[0][i] = 0;
  __syncthreads();
  for (int round = 0; round < 32 / kBits; ++round) {
    const int shift = 32 - (round + 1) * kBits;
    int* const bins = shared.bins[round % 2];
    const std::uint32_t above = shift + kBits == 32 ? 0 : ~0u << (shift + kBits);
    for (int i = threadIdx.x; i < count; i += kBlock) {
      const std::uint32_t value = values(i);
      if ((value & above) == prefix) atomicAdd(&bins[value >> shift & (kBins - 1)], 1);
    }
    meet(cluster);
    for (int i = threadIdx.x; i < kBins; i += kBlock) shared.bins[1 - round % 2][i] = 0;
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
      cluster.sync();
    }
    if (threadIdx.x < kWarp) {
      // Lane 0 has the largest digits.
      constexpr int kEach = kBins / kWarp;
      const int first = kBins - 1 - static_cast<int>(threadIdx.x) * kEach;
      int own = 0;
      for (int i = 0; i < kEach; ++i) own += all_bins[first - i];
      int end = own;
#pragma unroll
      for (int d = 1; d < kWarp; d *= 2) {
        const int other = __shfl_up_sync(kAllLanes, end, d);
        if (static_cast<int>(threadIdx.x) >= d) end += other;
      }
      int before = end - own;
      if (before < wanted && wanted <= end) {
        int digit = first;
        for (; before + all_bins[digit] < wanted; --digit) before += all_bins[digit];
        shared.digit = digit, shared.rest = wanted - before;
      }
    }
    __syncthreads();
    prefix |= static_cast<std::uint32_t>(shared.digit) << shift;
    wanted = shared.rest;
  }
  return prefix;
}

// kHeld: the values of a thread block are in its shared memory, which has room for them.
template <bool kHeld>
__global__ void __launch_bounds__(kBlock) top_keys_kernel(const TopKeys p) {
  extern __shared__ std::uint32_t held[];
  __shared__ Shared shared;
  let_next_start();
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
  for (int i = threadIdx.x; kHeld && i < count; i += kBlock) held[i] = ordered(scores[i]);
  const auto values = [&](int i) { return kHeld ? held[i] : ordered(scores[i]); };
  const std::uint32_t threshold = find_threshold(cluster, shared, values, count, k);

  // Warps take stretches, so that what is before a key is what is in the stretches before and in
  // the lanes before.
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int stretch = (count + kWarps * kWarp - 1) / (kWarps * kWarp) * kWarp;
  const int begin = min(warp * stretch, count), end = min(begin + stretch, count);
  Counts own = {0, 0};
  for (int i = begin + lane; i < end; i += kWarp) {
    const std::uint32_t value = values(i);
    own.above += value > threshold, own.equal += value == threshold;
  }
  const auto add = [](int a, int b) { return a + b; };
  own.above = warp_reduce(own.above, add), own.equal = warp_reduce(own.equal, add);
  if (lane == 0) shared.of_warps[warp] = own;
  __syncthreads();
  // A lane for each warp.
  const Counts of_warp = lane < kWarps ? shared.of_warps[lane] : Counts{0, 0};
  Counts before = {warp_reduce(lane < warp ? of_warp.above : 0, add),
                   warp_reduce(lane < warp ? of_warp.equal : 0, add)};
  Counts all = {warp_reduce(of_warp.above, add), warp_reduce(of_warp.equal, add)};
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
  for (int i = begin + lane; i - lane < end; i += kWarp) {
    const std::uint32_t value = i < end ? values(i) : 0;
    const bool is_above = i < end && value > threshold, is_equal = i < end && value == threshold;
    const unsigned all_above = __ballot_sync(kAllLanes, is_above),
                   all_equal = __ballot_sync(kAllLanes, is_equal), lower = (1u << lane) - 1;
    const int above_before = before.above + __popc(all_above & lower),
              equal_before = before.equal + __popc(all_equal & lower);
    if (is_above || (is_equal && equal_before < wanted)) {
      out[above_before + min(equal_before, wanted)] =
          slot_in(pages, static_cast<unsigned>(first + i));
    }
    before.above += __popc(all_above), before.equal += __popc(all_equal);
  }
  meet(cluster);  // the others have read this block's counts
}

}  // namespace

void launch_choose_keys(const KeyScores& scores, std::int32_t* out, std::int64_t tokens,
                        std::int64_t most_keys, const Gpu& gpu) {
  const top_keys::Kernel chosen = top_keys::choose_kernel(tokens, most_keys, gpu.arch, gpu.num_sms);
  const auto kernel = chosen.capacity > 0 ? top_keys_kernel<true> : top_keys_kernel<false>;
  // A failure shows as the launch's error.
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       static_cast<int>(top_keys::keys_of_block(gpu.arch) * sizeof(std::uint32_t)));
  const LaunchShape shape = {
      .grid = dim3(static_cast<unsigned>(tokens * chosen.blocks)),
      .block = kBlock,
      .shared = static_cast<std::size_t>(chosen.capacity) * sizeof(std::uint32_t),
      .cluster = static_cast<unsigned>(chosen.blocks)};
  launch_dependent(kernel, shape, gpu, TopKeys{scores, out});
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
