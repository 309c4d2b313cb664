// sparse_mla: what is done by which thread, and the end: the segments of a row put together.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backends/cpu/attention.h"
#include "backends/cpu/cpu_ops.h"
#include "base/ceil_div.h"
#include "base/thread_pool.h"

namespace glint {

using namespace cpu;

namespace {

// Merges the segments of an item's rows in order, and writes these panels of out; with the first of
// them, lse.
void finish(const AttentionPlan& plan, const AttentionItem& item, const AttentionSums& sums,
            std::int64_t segments, PanelRange panels) {
  const SparseMlaArgs& args = plan.args;
  float largest[kPanel], sum[kPanel];
  std::copy_n(sums.largest(0) + item.first_row, item.heads, largest);
  std::copy_n(sums.sum(0) + item.first_row, item.heads, sum);
  for (std::int64_t s = 1; s < segments; ++s) sums.merge(plan.kernels, s, panels, largest, sum);
  const std::int64_t begin = panels.begin * kPanel;
  const std::int64_t size = std::min<std::int64_t>(panels.end * kPanel, args.kv.latent_dim) - begin;
  for (std::int64_t i = 0; i < item.heads; ++i) {
    const std::int64_t h = item.group * kPanel + i;
    const std::int64_t at = item.token * args.out.stride[0] + h * args.out.stride[1] + begin;
    std::byte* const out = args.out.data + at * size_of(args.out.dtype);
    if (args.lse && begin == 0) {
      args.lse.row<float>(item.token)[h] =
          item.keys ? largest[i] + std::log(sum[i]) : -std::numeric_limits<float>::infinity();
    }
    if (item.keys == 0) {
      std::memset(out, 0, static_cast<std::size_t>(size * size_of(args.out.dtype)));
      continue;
    }
    plan.kernels.attended({.values = sums.values(0, panels.begin) + (item.first_row + i) * kPanel,
                           .panel_stride = sums.panel_stride(),
                           .factor = 1 / sum[i],
                           .out = out,
                           .size = size,
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
          const AttentionMemory memory = memory_of(2, thread);  // those so far, and the next one
          const AttentionBlock block(plan, memory, items_of(ends[0], ends[1]), memory.sums);
          block.sum_all(slots.of(block.items().back().token));
          plan.kernels.leave(*memory.tiles);
          for (const AttentionItem& item : block.items()) {
            finish(plan, item, block.sums(), 1, {0, plan.latent_panels});
          }
        });
    return;
  }
  // Few tokens: a task for each segment, then some for each item, of a few panels each.
  const std::int64_t bytes = AttentionSums::bytes(plan, plan.item_heads, most);
  std::byte* const sums = partials_.at_least(count * bytes);
  pool_.run_dynamic(count * most, [&](std::int64_t task, int thread) {
    const std::int64_t i = task / most, s = task % most;
    std::vector<AttentionItem> item = items_of(i, i + 1);
    if (s >= segments_of(item[0].keys)) return;
    const std::int32_t* const keys = slots.of(item[0].token);
    const AttentionMemory memory = memory_of(0, thread);
    AttentionBlock(plan, memory, std::move(item), sums + i * bytes).sum_segment(keys, s, s);
    plan.kernels.leave(*memory.tiles);
  });
  constexpr std::int64_t kPanels = 4;
  const std::int64_t parts = ceil_div(plan.latent_panels, kPanels);
  pool_.run(count * parts, [&](std::int64_t task, int) {
    const std::int64_t i = task / parts, first = task % parts * kPanels;
    std::vector<AttentionItem> item = items_of(i, i + 1);
    const AttentionSums own(plan, plan.place(item), sums + i * bytes);
    finish(plan, item[0], own, segments_of(item[0].keys),
           {first, std::min(first + kPanels, plan.latent_panels)});
  });
}

}  // namespace glint
