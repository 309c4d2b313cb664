// select_keys: scores of whole pages of keys by tiles, then the k best of each token by radix.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/for_rows.h"
#include "backends/cpu/key_scores.h"
#include "backends/cpu/top_k.h"
#include "base/thread_pool.h"

namespace glint {

using namespace cpu;

namespace {

// Consecutive tokens of one sequence, whose queries are multiplied with a page at once.
struct Block {
  std::int64_t first = 0, count = 0;
  std::int64_t visible = 0;  // keys that its last token sees
};

struct PageWeight {
  std::vector<float> ones;
  Weight weight;
  std::int64_t stride;  // of pages

  // The keys of a page as a weight; the scales of fp8 keys come after the sum over heads.
  explicit PageWeight(const IndexCache& cache) : stride(cache.stride()) {
    static constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF8E4M3};
    const auto format = static_cast<std::size_t>(cache.format);
    const std::int64_t blocks = fp8_blocks(cache.dim);
    ones.assign(static_cast<std::size_t>(blocks), 1.0f);
    weight = {.format = KeyScores::weight_format(cache.format),
              .rows = kPageSize,
              .cols = cache.dim,
              .data = Tensor(cache.data, kTypes[format], {kPageSize, cache.dim}),
              .scale = Tensor(ones.data(), DType::kF32, {1, blocks})};
  }
  Weight of(std::int64_t page) const {
    Weight w = weight;
    w.data.data += page * stride;
    return w;
  }
};

std::int64_t position_of(const SelectKeysArgs& args, std::int64_t t) {
  return args.batch.positions.ptr<std::int32_t>()[t];
}
const std::int32_t* pages_of(const SelectKeysArgs& args, std::int64_t t) {
  return args.batch.page_table.row<std::int32_t>(args.batch.seqs.ptr<std::int32_t>()[t]);
}

void write_slots(const SelectKeysArgs& args, std::int64_t t, const std::int32_t* keys,
                 std::int64_t count) {
  std::int32_t* out = args.out.row<std::int32_t>(t);
  const std::int32_t* pages = pages_of(args, t);
  for (std::int64_t j = 0; j < count; ++j) {
    const std::int32_t key = keys ? keys[j] : static_cast<std::int32_t>(j);
    out[j] = pages[key / kPageSize] * kPageSize + key % kPageSize;
  }
  std::fill(out + count, out + args.out.dim(1), -1);
}

}  // namespace

void CpuOps::select_keys(const SelectKeysArgs& args) {
  check(args);
  const std::int64_t T = args.out.dim(0), k = args.out.dim(1);
  for (std::int64_t t = 0; t < T; ++t) {
    GLINT_CHECK(position_of(args, t) / kPageSize < args.batch.page_table.dim(1),
                "the position lies beyond the page table");
  }
  for_rows(T, k, [&](std::int64_t t, int) {
    const std::int64_t position = position_of(args, t);
    if (position < 0) {
      std::fill_n(args.out.row<std::int32_t>(t), k, -1);
    } else if (position < k) {
      write_slots(args, t, nullptr, position + 1);
    }
  });
  const auto is_scored = [&](std::int64_t t) { return position_of(args, t) >= k; };
  const std::int32_t* const positions = args.batch.positions.ptr<std::int32_t>();
  if (std::all_of(positions, positions + T, [k](std::int32_t p) { return p < k; })) return;
  GLINT_CHECK(args.q, "keys are to be scored without a query");

  const std::int64_t Hi = args.q.dim(1), D = args.q.dim(2);
  GLINT_CHECK(Hi <= Scratch::kTokens, "more index heads than a tile's rows");
  const bool is_fp8 = args.cache.format == IndexFormat::kFp8;
  const PageWeight page_weight(args.cache);
  const KeyScores memory(args, products_);
  const bool as_bf16 = memory.as_bf16;
  const Kernels& kernels = products_.kernels();

  // A block's queries are quantised, scored and ranked in three phases.
  const std::int64_t most = memory.most, stride = memory.stride;
  const int size = memory.size();
  std::byte* queries = queries_.at_least(memory.query_bytes());
  std::vector<float> weights(static_cast<std::size_t>(most * Hi));
  for (std::int64_t t = 0; t < T;) {
    if (!is_scored(t)) {
      ++t;
      continue;
    }
    Block block = {.first = t};
    const auto seq = [&](std::int64_t i) { return args.batch.seqs.ptr<std::int32_t>()[i]; };
    while (t < T && block.count < most && seq(t) == seq(block.first) && is_scored(t)) {
      block.visible = std::max(block.visible, position_of(args, t) + 1);
      ++block.count, ++t;
    }

    const float norm = 1 / std::sqrt(static_cast<float>(Hi * D));
    for_rows(block.count * Hi, D, [&](std::int64_t i, int) {
      const std::int64_t token = block.first + i / Hi, h = i % Hi;
      const std::byte* q =
          args.q.data + (token * args.q.stride[0] + h * args.q.stride[1]) * size_of(args.q.dtype);
      std::byte* to = queries + i * stride * size;
      const bool q_is_bf16 = args.q.dtype == DType::kBF16;
      float weight = args.weights.row<float>(token)[h] * norm;
      if (is_fp8) {
        weight *= kernels.quantize(q, q_is_bf16, to, as_bf16, D);
      } else {
        kernels.convert(q, q_is_bf16, to, as_bf16, D);
      }
      weights[static_cast<std::size_t>(i)] = weight;
      std::memset(to + D * size, 0, static_cast<std::size_t>((stride - D) * size));
    });

    const std::int64_t pages = (block.visible + kPageSize - 1) / kPageSize;
    const std::int64_t row = pages * kPageSize;
    auto* scores =
        reinterpret_cast<float*>(scores_.at_least(memory.score_bytes(block.count, block.visible)));
    const Rows x = {.data = queries,
                    .stride = stride,
                    .count = block.count * Hi,
                    .readable = most * Hi,
                    .is_bf16 = as_bf16};
    const auto first_slot = [&](std::int64_t p) {
      const std::int64_t page = pages_of(args, block.first)[p];
      GLINT_CHECK(page >= 0 && page < args.cache.num_slots / kPageSize, "page beyond the cache");
      return page * kPageSize;
    };
    pool_.run_ranges(pages, [&](ThreadPool::Range range, ThreadPool::Range next, int thread) {
      Scratch& scratch = products_.scratch(thread);
      for (std::int64_t p = range.begin; p < range.end; ++p) {
        const std::int64_t slot = first_slot(p), then = p + 1 < range.end ? p + 1 : next.begin;
        const Weight keys = page_weight.of(slot / kPageSize);
        for (int half = 0; half < kPageSize; half += kPanel) {
          PartAt following;  // the other half, or the next page: on its way meanwhile
          if (half + kPanel < kPageSize) {
            following.codes = args.cache.key(slot + half + kPanel);
          } else if (then < pages) {
            following.codes = args.cache.key(first_slot(then));
          }
          const PanelPart part = {.weight = keys, .n0 = half};
          products_.multiply(part, place_of(part), x, scratch, scratch.c[0], following);
          for (std::int64_t i = 0; i < block.count; ++i) {
            float* to = scores + i * row + p * kPageSize + half;
            kernels.relu_sum(scratch.c[0] + i * Hi * kPanel,
                             &weights[static_cast<std::size_t>(i * Hi)], static_cast<int>(Hi), to);
            if (!is_fp8) continue;
            float scales[kPanel];
            std::memcpy(scales, args.cache.scale(slot + half), sizeof scales);
            for (int n = 0; n < kPanel; ++n) to[n] *= scales[n];
          }
        }
      }
      if (next.empty()) kernels.leave(scratch.tiles);
    });

    pool_.run_dynamic(block.count, [&](std::int64_t i, int) {
      const std::int64_t token = block.first + i;
      std::vector<std::int32_t> keys(static_cast<std::size_t>(k));
      top_k({scores + i * row, static_cast<std::size_t>(position_of(args, token) + 1)}, keys);
      write_slots(args, token, keys.data(), k);
    });
  }
}

}  // namespace glint
