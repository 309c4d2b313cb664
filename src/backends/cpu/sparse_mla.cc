// sparse_mla: what is done by which thread, and the end: the segments of a row put together.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backends/cpu/attention.h"
#include "backends/cpu/cpu_ops.h"

namespace glint {

using namespace cpu;

namespace {

std::int64_t segments_of(std::int64_t keys) { return (keys + kSegment - 1) / kSegment; }

// Adds the segments of an item's rows in order, each weighed by its part of the sum of all p's, and
// writes out and lse.
void finish(const AttentionPlan& plan, const AttentionItem& item, const AttentionSums& sums) {
  const SparseMlaArgs& args = plan.args;
  const std::int64_t t = item.token, segments = segments_of(item.keys);
  std::vector<float> weights(static_cast<std::size_t>(segments));
  for (std::int64_t i = 0; i < item.heads; ++i) {
    const std::int64_t h = item.group * kPanel + i, row = item.first_row + i;
    float largest = -std::numeric_limits<float>::infinity(), sum = 0;
    for (std::int64_t s = 0; s < segments; ++s) {
      largest = std::max(largest, sums.largest(s)[row]);
    }
    for (std::int64_t s = 0; s < segments; ++s) {
      weights[static_cast<std::size_t>(s)] = std::exp(sums.largest(s)[row] - largest);
      sum += sums.sum(s)[row] * weights[static_cast<std::size_t>(s)];
    }
    for (float& weight : weights) weight /= sum;
    if (args.lse) args.lse.row<float>(t)[h] = segments ? largest + std::log(sum) : largest;
    const std::int64_t at = t * args.out.stride[0] + h * args.out.stride[1];
    plan.kernels.attended({.values = sums.values(0, 0) + row * kPanel,
                           .segment_stride = sums.segment_stride(),
                           .panel_stride = sums.panel_stride(),
                           .weights = weights.data(),
                           .segments = segments,
                           .out = args.out.data + at * size_of(args.out.dtype),
                           .size = args.kv.latent_dim,
                           .is_bf16 = args.out.dtype == DType::kBF16});
  }
}

// The keys of each token: the valid slots, which stand first.
struct Slots {
  const Tensor& indices;  // [T, k]

  const std::int32_t* of(std::int64_t t) const { return indices.row<std::int32_t>(t); }
  std::int64_t count(std::int64_t t) const {
    const auto is_valid = [](std::int32_t slot) { return slot >= 0; };
    return std::partition_point(of(t), of(t) + indices.dim(1), is_valid) - of(t);
  }
  bool begin_those_of_the_next(std::int64_t t) const {
    const std::int64_t keys = count(t);
    return keys <= count(t + 1) && std::equal(of(t), of(t) + keys, of(t + 1));
  }
};

// Items (groups of heads, token by token) in blocks of at most `size` that share their keys: the
// first item of each block, and the end.
std::vector<std::int64_t> blocks_of(const Slots& slots, std::int64_t items, std::int64_t groups,
                                    std::int64_t size) {
  std::vector<std::int64_t> blocks = {0};
  for (std::int64_t item = 1; item < items; ++item) {
    const bool shares = item % groups != 0 || slots.begin_those_of_the_next(item / groups - 1);
    if (!shares || item - blocks.back() == size) blocks.push_back(item);
  }
  blocks.push_back(items);
  return blocks;
}

}  // namespace

void CpuOps::sparse_mla(const SparseMlaArgs& args) {
  check(args);
  const AttentionPlan plan(args, products_);
  const Slots slots{args.indices};
  const std::int64_t count = args.q_latent.dim(0) * plan.groups;
  const std::int64_t most = segments_of(args.indices.dim(1));
  const auto items_of = [&](std::int64_t begin, std::int64_t end) {
    std::vector<AttentionItem> items;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t t = i / plan.groups, group = i % plan.groups;
      items.push_back({.token = t, .group = group, .keys = slots.count(t)});
    }
    return items;
  };
  const auto memory_of = [&](std::int64_t segments, int thread) {
    return AttentionMemory(plan, segments, attention_[static_cast<std::size_t>(thread)],
                           products_.scratch(thread).tiles);
  };
  if (count >= 2 * pool_.num_threads()) {
    const std::int64_t size = std::clamp<std::int64_t>(count / (4 * pool_.num_threads()), 1,
                                                       AttentionBlock::most_items(plan));
    const std::vector<std::int64_t> blocks = blocks_of(slots, count, plan.groups, size);
    pool_.run_dynamic(
        static_cast<std::int64_t>(blocks.size()) - 1, [&](std::int64_t b, int thread) {
          const std::int64_t* const ends = blocks.data() + b;
          const AttentionMemory memory = memory_of(most, thread);
          const AttentionBlock block(plan, memory, items_of(ends[0], ends[1]), memory.sums);
          const AttentionItem& longest = block.items().back();
          for (std::int64_t s = 0; s < segments_of(longest.keys); ++s) {
            block.add_segment(slots.of(longest.token), s);
          }
          plan.kernels.leave(*memory.tiles);
          for (const AttentionItem& item : block.items()) finish(plan, item, block.sums());
        });
    return;
  }
  // Few tokens: a task for each segment, then one for each item.
  const std::int64_t bytes = AttentionSums::bytes(plan, plan.item_heads, most);
  std::byte* const sums = partials_.at_least(count * bytes);
  pool_.run_dynamic(count * most, [&](std::int64_t task, int thread) {
    const std::int64_t i = task / most, s = task % most;
    std::vector<AttentionItem> item = items_of(i, i + 1);
    if (s >= segments_of(item[0].keys)) return;
    const std::int32_t* const keys = slots.of(item[0].token);
    const AttentionMemory memory = memory_of(0, thread);
    AttentionBlock(plan, memory, std::move(item), sums + i * bytes).add_segment(keys, s);
    plan.kernels.leave(*memory.tiles);
  });
  pool_.run(count, [&](std::int64_t i, int) {
    std::vector<AttentionItem> item = items_of(i, i + 1);
    const AttentionSums own(plan, plan.place(item), sums + i * bytes);
    finish(plan, item[0], own);
  });
}

}  // namespace glint
