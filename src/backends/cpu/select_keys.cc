// select_keys: scores of whole pages of keys by tiles, then the k best of each token by radix.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/cpu_ops.h"
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
const std::int32_t* page_row(const SelectKeysArgs& args, std::int64_t t) {
  return args.batch.page_table.row<std::int32_t>(args.batch.seqs.ptr<std::int32_t>()[t]);
}

void write_slots(const SelectKeysArgs& args, std::int64_t t, const std::int32_t* keys,
                 std::int64_t count) {
  std::int32_t* out = args.out.row<std::int32_t>(t);
  const std::int32_t* pages = page_row(args, t);
  for (std::int64_t j = 0; j < count; ++j) {
    const std::int32_t key = keys ? keys[j] : static_cast<std::int32_t>(j);
    out[j] = pages[key / kPageSize] * kPageSize + key % kPageSize;
  }
  std::fill(out + count, out + args.out.dim(1), -1);
}

// The scores of one block of tokens after another.
class BlockScores {
 public:
  BlockScores(const SelectKeysArgs& args, Products& products, Growing& queries, Growing& scores)
      : args_(args),
        products_(products),
        memory_(args, products),
        page_weight_(args.cache),
        is_fp8_(args.cache.format == IndexFormat::kFp8),
        queries_(queries.at_least(memory_.query_bytes())),
        score_memory_(scores),
        weights_(static_cast<std::size_t>(memory_.most * memory_.heads)) {
    GLINT_CHECK(memory_.heads <= Scratch::kTokens, "more index heads than a tile's rows");
  }

  // The block that begins with token t.
  const Block& begin(std::int64_t t) {
    block_ = {.first = t};
    const std::int64_t T = args_.out.dim(0), k = args_.out.dim(1);
    const auto* const seqs = args_.batch.seqs.ptr<std::int32_t>();
    for (; t < T && block_.count < memory_.most && seqs[t] == seqs[block_.first]; ++t) {
      if (position_of(args_, t) < k) break;
      block_.visible = std::max(block_.visible, position_of(args_, t) + 1);
      ++block_.count;
    }
    scores_ = reinterpret_cast<float*>(
        score_memory_.at_least(memory_.score_bytes(block_.count, block_.visible)));
    return block_;
  }

  std::int64_t num_queries() const { return block_.count * memory_.heads; }
  std::int64_t num_pages() const { return pages_of(block_.visible); }

  // Query i, that of head i % heads, as tiles read it, and the weight of its scores.
  void take_query(std::int64_t i) {
    const std::int64_t token = block_.first + i / memory_.heads, h = i % memory_.heads;
    const std::int64_t D = args_.q.dim(2), size = memory_.size();
    const std::byte* q =
        args_.q.data + (token * args_.q.stride[0] + h * args_.q.stride[1]) * size_of(args_.q.dtype);
    std::byte* to = queries_ + i * memory_.stride * size;
    const bool q_is_bf16 = args_.q.dtype == DType::kBF16;
    const float norm = 1 / std::sqrt(static_cast<float>(memory_.heads * D));
    float weight = args_.weights.row<float>(token)[h] * norm;
    if (is_fp8_) {
      weight *= products_.kernels().quantize(q, q_is_bf16, to, memory_.as_bf16, D);
    } else {
      products_.kernels().convert(q, q_is_bf16, to, memory_.as_bf16, D);
    }
    weights_[static_cast<std::size_t>(i)] = weight;
    std::memset(to + D * size, 0, static_cast<std::size_t>((memory_.stride - D) * size));
  }

  // The scores of the keys of some pages, on a thread that goes on with `next`.
  void score(ThreadPool::Range range, ThreadPool::Range next, int thread) const {
    Scratch& scratch = products_.scratch(thread);
    for (std::int64_t p = range.begin; p < range.end; ++p) {
      const std::int64_t slot = first_slot(p), then = p + 1 < range.end ? p + 1 : next.begin;
      const Weight keys = page_weight_.of(slot / kPageSize);
      for (int half = 0; half < kPageSize; half += kPanel) {
        PartAt following;  // the other half, or the next page: on its way meanwhile
        if (half + kPanel < kPageSize) {
          following.codes = args_.cache.key(slot + half + kPanel);
        } else if (then < num_pages()) {
          following.codes = args_.cache.key(first_slot(then));
        }
        score_panel({.weight = keys, .n0 = half}, slot + half, scores_ + p * kPageSize + half,
                    following, scratch);
      }
    }
    if (next.empty()) products_.kernels().leave(scratch.tiles);
  }

  // Scores of the keys that token i of the block sees.
  std::span<const float> of_token(std::int64_t i) const {
    return {scores_ + i * num_pages() * kPageSize,
            static_cast<std::size_t>(position_of(args_, block_.first + i) + 1)};
  }

 private:
  std::int64_t first_slot(std::int64_t p) const {
    const std::int64_t page = page_row(args_, block_.first)[p];
    GLINT_CHECK(page >= 0 && page < args_.cache.num_slots / kPageSize, "page beyond the cache");
    return page * kPageSize;
  }

  // Scores the panel of keys that lies at `slot`, those of the first token from `out` on.
  void score_panel(const PanelPart& part, std::int64_t slot, float* out, const PartAt& following,
                   Scratch& scratch) const {
    const std::int64_t heads = memory_.heads;
    const Rows x = {.data = queries_,
                    .stride = memory_.stride,
                    .count = num_queries(),
                    .readable = memory_.most * heads,
                    .is_bf16 = memory_.as_bf16};
    products_.multiply(part, place_of(part), x, scratch, scratch.c[0], following);
    for (std::int64_t i = 0; i < num_queries(); i += heads, out += num_pages() * kPageSize) {
      products_.kernels().relu_sum(scratch.c[0] + i * kPanel,
                                   &weights_[static_cast<std::size_t>(i)], static_cast<int>(heads),
                                   out);
      if (!is_fp8_) continue;
      float scales[kPanel];
      std::memcpy(scales, args_.cache.scale(slot), sizeof scales);
      for (int n = 0; n < kPanel; ++n) out[n] *= scales[n];
    }
  }

  const SelectKeysArgs& args_;
  Products& products_;
  const KeyScores memory_;
  const PageWeight page_weight_;
  const bool is_fp8_;
  std::byte* const queries_;
  Growing& score_memory_;
  std::vector<float> weights_;  // of the queries' scores
  Block block_;
  float* scores_ = nullptr;  // [tokens of the block, keys of num_pages()]
};

}  // namespace

void CpuOps::select_keys(const SelectKeysArgs& args) {
  check(args);
  const std::int64_t T = args.out.dim(0), k = args.out.dim(1);
  for (std::int64_t t = 0; t < T; ++t) {
    GLINT_CHECK(position_of(args, t) / kPageSize < args.batch.page_table.dim(1),
                "the position lies beyond the page table");
  }
  cpu::for_rows(pool_, T, k, [&](std::int64_t t, int) {
    const std::int64_t position = position_of(args, t);
    if (position < 0) {
      std::fill_n(args.out.row<std::int32_t>(t), k, -1);
    } else if (position < k) {
      write_slots(args, t, nullptr, position + 1);
    }
  });
  const std::int32_t* const positions = args.batch.positions.ptr<std::int32_t>();
  if (std::all_of(positions, positions + T, [k](std::int32_t p) { return p < k; })) return;
  GLINT_CHECK(args.q, "keys are to be scored without a query");

  // A block's queries are quantised, scored and ranked in three phases.
  BlockScores scores(args, products_, queries_, scores_);
  for (std::int64_t t = 0; t < T;) {
    if (positions[t] < k) {
      ++t;
      continue;
    }
    const Block& block = scores.begin(t);
    t += block.count;
    cpu::for_rows(pool_, scores.num_queries(), args.q.dim(2),
                  [&](std::int64_t i, int) { scores.take_query(i); });
    pool_.run_ranges(scores.num_pages(), [&](ThreadPool::Range range, ThreadPool::Range next,
                                             int thread) { scores.score(range, next, thread); });
    pool_.run_dynamic(block.count, [&](std::int64_t i, int) {
      std::vector<std::int32_t> keys(static_cast<std::size_t>(k));
      top_k(scores.of_token(i), keys);
      write_slots(args, block.first + i, keys.data(), k);
    });
  }
}

}  // namespace glint
