// The indexer's scores for the tokens of prompts, by the instruction for whole warpgroups: a page
// of keys passes through registers from code to bf16 once for eight tokens, whose queries lie in
// shared memory. A warpgroup scores a page at a time, for two tokens together.
//
// Every score is the sum of score_keys.cu, instruction by instruction.
#include <algorithm>

#include "backends/cuda/attention/score_keys.cuh"
#include "backends/cuda/dependent_launch.cuh"
#include "backends/cuda/linear/wide.cuh"
#include "base/ceil_div.h"

namespace glint::cuda {
namespace {

constexpr int kTokens = 8;                // of a thread block
constexpr int kGroups = 3, kGroup = 128;  // warpgroups, and their threads
constexpr int kBlock = kGroups * kGroup, kWarps = kBlock / kWarp;
constexpr int kRound = kGroups * kPageSize;  // keys of a block at a time
constexpr int kPiecesOfToken = kHeadBlocks * kEightBytes;
static_assert(kPageSize == 64 && 2 * kMostIndexHeads == kHalfRows && kIndexDim == 4 * kWarp &&
              kWarps == 12);

struct Shared {
  alignas(128) std::byte q[kTokens * kPiecesOfToken];
  float weights[kTokens][kMostIndexHeads];
  int visible[kTokens];  // 0: of a token without scores
  std::int32_t seqs[kTokens];
};

// The queries of a block's tokens, where the instruction reads them; a warp for each head, whose
// next ones are on their way.
template <WeightFormat kFormat, class Key>
__device__ void load_queries(const KeyScores& s, std::int64_t first, std::int64_t tokens,
                             Shared& shared) {
  constexpr int kHeads = kTokens * kMostIndexHeads, kAhead = 8;
  const int lane = threadIdx.x % kWarp, t = lane % 4, chunk = lane / 4 % 4, part = lane / 16;
  const int column = Codes<kFormat>::column(t, chunk) + 4 * part;
  // Past the last token and head the last one again.
  const auto row_of = [&](int i) {
    return min(first + i / kMostIndexHeads, tokens - 1) * s.heads +
           min(i % kMostIndexHeads, s.heads - 1);
  };
  for (int begin = threadIdx.x / kWarp; begin < kHeads; begin += kAhead * kWarps) {
    Columns q[kAhead];
    float weights[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const std::int64_t row = row_of(min(begin + u * kWarps, kHeads - 1));
      q[u] = *reinterpret_cast<const Columns*>(s.q + row * kIndexDim + column);
      weights[u] = s.weights[row];
    }
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const int i = begin + u * kWarps, token = i / kMostIndexHeads, h = i % kMostIndexHeads;
      if (i >= kHeads) break;
      const float scale = scale_of<Key>(q[u]);
      std::byte* const to = shared.q + token * kPiecesOfToken + h % 8 * 16 + t * 4 +
                            place_of_piece(h / 8, chunk / 2, chunk % 2 * 2 + part, 0);
      *reinterpret_cast<__nv_bfloat162*>(to) = quantized<Key>(q[u].pairs[0], scale);
      *reinterpret_cast<__nv_bfloat162*>(to + kPiece) = quantized<Key>(q[u].pairs[1], scale);
      if (lane == 0) {
        shared.weights[token][h] = h < s.heads ? weights[u] * s.weight_scale * scale : 0.0f;
      }
    }
  }
  show_writes();
}

// A warp's 16 keys of a page on their way: two of a lane.
template <WeightFormat kFormat, class Key>
__device__ void load_page(LaneKeys<kFormat, Key>& keys, const KeyScores& s, std::int32_t page) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int own = static_cast<int>(threadIdx.x) % kGroup / kWarp * 16 + half * 8 +
                    static_cast<int>(threadIdx.x) % kWarp / 4;
    keys.load(s, half, std::int64_t{page} * kPageSize + own);
  }
}

// Scores of tokens [begin, end) of a block, of one sequence, with its keys [first, last).
template <WeightFormat kFormat, class Key>
__device__ void score_sequence(const KeyScores& s, const Shared& shared, float* out, int begin,
                               int end, int first, int last) {
  const int g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
  const int group = threadIdx.x / kGroup, row = threadIdx.x % kGroup / kWarp * 16 + g;
  const std::int32_t* const pages = s.page_table + shared.seqs[begin] * s.max_pages;
  int base = first + group * kPageSize;
  if (base >= last) return;
  const std::uint32_t queries = describe_x(shared.q);
  LaneKeys<kFormat, Key> keys;
  load_page(keys, s, pages[base / kPageSize]);
  for (; base < last; base += kRound) {
    std::uint32_t a[2 * kChunks][4];
#pragma unroll
    for (int c = 0; c < kChunks; ++c) decode_chunk(a + 2 * c, keys.codes, c);
    const float scales[2] = {keys.scales[0], keys.scales[1]};
    if (base + kRound < last) load_page(keys, s, pages[(base + kRound) / kPageSize]);
    const auto start = [&](float(&dots)[kHalfSums], int two) {
      const std::uint32_t q = queries + two * kPiecesOfToken / 16;
      begin_multiplying();
#pragma unroll
      for (int i = 0; i < 2 * kChunks; ++i) {
        multiply_wide(dots, a[i], q + place_of_piece(0, i / 4, i % 4, 0) / 16, i != 0);
      }
      end_multiplying();
    };
    const auto finish = [&](const float(&dots)[kHalfSums], int two) {
      if (two + 2 <= begin || two >= end) return;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int token = two + i;
        const float* const weights = shared.weights[token] + 2 * t;
        float scores[2] = {};
        sum_heads(
            dots + i * (kHalfSums / 2),
            [&](int j) { return *reinterpret_cast<const float2*>(weights + j * 8); }, scores);
        const int visible = token >= begin && token < end ? shared.visible[token] : 0;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int key = base + row + half * 8;
          if (t == 0 && key < visible) out[token * s.stride + key] = scores[half] * scales[half];
        }
      }
    };
    float even[kHalfSums], odd[kHalfSums];
    start(even, 0);
    start(odd, 2);
    wait_for_sums<1>(even);
    finish(even, 0);
    start(even, 4);
    wait_for_sums<1>(odd);
    finish(odd, 2);
    start(odd, 6);
    wait_for_sums<1>(even);
    finish(even, 4);
    wait_for_sums<0>(odd);
    finish(odd, 6);
  }
}

template <WeightFormat kFormat, class Key>
__global__ void __launch_bounds__(kBlock, 1)
    score_prompt_keys_kernel(const KeyScores s, const std::int64_t tokens, const int rounds) {
  if constexpr (kArch.wgmma) {
    extern __shared__ __align__(128) std::byte memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    let_next_start();
    wait_for_inputs();
    const int before = static_cast<int>(blockIdx.y) * kTokens;  // of this launch
    const std::int64_t first_token = s.first_token + before;
    const int first = static_cast<int>(blockIdx.x) * kRound * rounds;
    const int last = first + kRound * rounds;
    int most = 0;
    for (int i = 0; i < kTokens; ++i) {
      const bool there = first_token + i < tokens;
      const int visible = there ? s.positions[first_token + i] + 1 : 0;
      most = max(most, visible);
      if (static_cast<int>(threadIdx.x) == i) {
        shared.visible[i] = visible <= s.k ? 0 : visible;
        shared.seqs[i] = there ? s.seqs[first_token + i] : -1;
      }
    }
    if (most <= s.k || most <= first) return;
    load_queries<kFormat, Key>(s, first_token, tokens, shared);
    __syncthreads();
    float* const out = s.scores + before * s.stride;
    for (int begin = 0, end = 0; begin < kTokens; begin = end) {
      int visible = 0;
      for (; end < kTokens && shared.seqs[end] == shared.seqs[begin]; ++end) {
        visible = max(visible, shared.visible[end]);
      }
      score_sequence<kFormat, Key>(s, shared, out, begin, end, first, min(last, visible));
    }
  }
}

}  // namespace

void launch_score_prompt_keys(const KeyScores& s, IndexFormat format, std::int64_t tokens,
                              std::int64_t most_keys, const Gpu& gpu) {
  const std::int64_t blocks = ceil_div(tokens, kTokens), rounds = ceil_div(most_keys, kRound);
  // A token's keys are divided into parts as takes the least time: the rounds of all blocks of a
  // multiprocessor, where queries take as long as some rounds.
  constexpr std::int64_t kQueries = 4, kMostParts = 32;
  const auto time = [&](std::int64_t parts) {
    return ceil_div(blocks * parts, gpu.num_sms) * (ceil_div(rounds, parts) + kQueries);
  };
  std::int64_t parts = 1;
  for (std::int64_t n = 2; n <= kMostParts; ++n) parts = time(n) < time(parts) ? n : parts;
  const std::int64_t rounds_each = ceil_div(rounds, parts);
  const auto kernel = format == IndexFormat::kFp8
                          ? score_prompt_keys_kernel<WeightFormat::kFp8Block, std::uint8_t>
                          : score_prompt_keys_kernel<WeightFormat::kBF16, bf16>;
  // A failure shows as the launch's error.
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared));
  const LaunchShape shape = {.grid = dim3(static_cast<unsigned>(ceil_div(rounds, rounds_each)),
                                          static_cast<unsigned>(blocks)),
                             .block = kBlock,
                             .shared = sizeof(Shared)};
  launch_in_order(kernel, shape, gpu, s, s.first_token + tokens, static_cast<int>(rounds_each));
}

}  // namespace glint::cuda
