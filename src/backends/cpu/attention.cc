#include "backends/cpu/attention.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace glint::cpu {
namespace {

constexpr std::int64_t kPrefetch = 6;             // rows ahead: selected keys lie apart in memory
constexpr std::int64_t kKeyAlign = 32;            // of what tiles read: at least any x_align
constexpr std::int64_t kPStride = kSegment + 32;  // elements of a row of p
constexpr float kMissing = -1e30f;                // the score of no key

}  // namespace

AttentionPlan::AttentionPlan(const SparseMlaArgs& args, const Products& products)
    : args(args),
      kernels(products.kernels()),
      as_bf16(products.in_bf16(args.q_latent.dtype, args.kv.format == LatentFormat::kF32
                                                        ? WeightFormat::kF32
                                                        : WeightFormat::kBF16)),
      width(args.kv.latent_dim + args.kv.rope_dim),
      stride(x_stride(width)),
      latent_panels(aligned_up(args.kv.latent_dim, kPanel) / kPanel),
      groups(aligned_up(args.q_latent.dim(1), kPanel) / kPanel),
      item_heads(std::min<std::int64_t>(kPanel, args.q_latent.dim(1))),
      panel_items(groups > 1 ? 1 : kPanel / item_heads) {}

std::int64_t AttentionPlan::place(std::vector<AttentionItem>& items) const {
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto n = static_cast<std::int64_t>(i);
    items[i].first_row = n / panel_items * kPanel + n % panel_items * item_heads;
    items[i].heads =
        std::min<std::int64_t>(item_heads, args.q_latent.dim(1) - items[i].group * kPanel);
  }
  return items.back().first_row + items.back().heads;
}

AttentionSums::AttentionSums(const AttentionPlan& plan, std::int64_t rows, std::byte* data)
    : data_(reinterpret_cast<float*>(data)),
      rows_(rows),
      lanes_(aligned_up(rows, kPanel)),
      stride_(2 * lanes_ + plan.latent_panels * rows * kPanel) {}

std::int64_t AttentionSums::bytes(const AttentionPlan& plan, std::int64_t rows,
                                  std::int64_t segments) {
  return AttentionSums(plan, rows, nullptr).stride_ * segments * std::int64_t{sizeof(float)};
}

void AttentionSums::merge(const Kernels& kernels, std::int64_t s, PanelRange panels, float* largest,
                          float* sum) const {
  float keep[AttentionMemory::kPanels * kPanel], add[AttentionMemory::kPanels * kPanel];
  kernels.merge({.largest = largest,
                 .sum = sum,
                 .more_largest = this->largest(s),
                 .more_sum = this->sum(s),
                 .lanes = static_cast<int>(aligned_up(rows_, kHalfPanel)),
                 .keep = keep,
                 .add = add});
  for (std::int64_t panel = panels.begin; panel < panels.end; ++panel) {
    kernels.merge_values({.values = values(0, panel),
                          .more = values(s, panel),
                          .keep = keep,
                          .add = add,
                          .rows = rows_});
  }
}

namespace {

// The parts of a thread's memory, in order.
std::array<std::int64_t, 7> part_bytes(const AttentionPlan& plan, std::int64_t segments) {
  constexpr std::int64_t kPanels = AttentionMemory::kPanels;
  return {kPanel * plan.stride * plan.size(),
          kPanels * panel_bytes(plan.code(), plan.width),
          kSegment * plan.stride * plan.size(),
          kPanels * kPanel * kPStride * plan.size(),
          plan.latent_panels * kPanel * kSegment * plan.size(),
          kSegment * kPanel * std::int64_t{sizeof(float)},
          AttentionSums::bytes(plan, kPanels * kPanel, segments)};
}

}  // namespace

std::int64_t AttentionMemory::bytes(const AttentionPlan& plan, std::int64_t segments) {
  std::int64_t total = 0;
  for (const std::int64_t bytes : part_bytes(plan, segments)) total += aligned_up(bytes, 64);
  return total;
}

AttentionMemory::AttentionMemory(const AttentionPlan& plan, std::int64_t segments, Growing& growing,
                                 TileRows& tiles)
    : tiles(&tiles) {
  std::byte* score_bytes = nullptr;
  std::byte** const parts[] = {&query_rows, &queries, &keys, &p, &values, &score_bytes, &sums};
  std::byte* at = growing.at_least(bytes(plan, segments));
  std::byte** const* part = parts;
  for (const std::int64_t size : part_bytes(plan, segments)) {
    **part++ = at;
    at += aligned_up(size, 64);
  }
  scores = reinterpret_cast<float*>(score_bytes);
}

AttentionBlock::AttentionBlock(const AttentionPlan& plan, const AttentionMemory& memory,
                               std::vector<AttentionItem> items, std::byte* sums)
    : plan_(plan),
      memory_(memory),
      items_(std::move(items)),
      sums_(plan, plan.place(items_), sums) {
  for (std::int64_t panel = 0; panel < panels(); ++panel) load_queries(panel);
}

int AttentionBlock::rows_of(std::int64_t panel) const {
  return static_cast<int>(std::min<std::int64_t>(kPanel, sums_.rows() - panel * kPanel));
}

std::byte* AttentionBlock::queries(std::int64_t panel) const {
  return memory_.queries + panel * panel_bytes(plan_.code(), plan_.width);
}

// The queries of a panel's rows, latent and rope part side by side. Rows that no item has are
// zeros.
void AttentionBlock::load_queries(std::int64_t panel) const {
  const SparseMlaArgs& args = plan_.args;
  const std::int64_t row_bytes = plan_.stride * plan_.size();
  std::int64_t rows = 0;
  for (const AttentionItem& item : items_) {
    if (item.first_row / kPanel != panel) continue;
    for (std::int64_t i = 0; i < item.heads; ++i, ++rows) {
      std::byte* to = memory_.query_rows + rows * row_bytes;
      for (const Tensor* q : {&args.q_latent, &args.q_rope}) {
        const std::int64_t at =
            item.token * q->stride[0] + (item.group * kPanel + i) * q->stride[1];
        plan_.kernels.convert(q->data + at * size_of(q->dtype), q->dtype == DType::kBF16, to,
                              plan_.as_bf16, q->dim(2));
        to += q->dim(2) * plan_.size();
      }
    }
  }
  plan_.kernels.pack[plan_.code()](
      {.rows = memory_.query_rows,
       .row_bytes = row_bytes,
       .bytes = plan_.width * plan_.size(),
       .num_rows = static_cast<int>(rows),
       .panel_rows = rows_of(panel) <= kHalfPanel ? kHalfPanel : kPanel,
       .panel = queries(panel)});
}

void AttentionBlock::prefetch_key(const std::int32_t* slots, std::int64_t j,
                                  std::int64_t count) const {
  const LatentCache& kv = plan_.args.kv;
  if (j >= count || slots[j] >= kv.num_slots) return;
  const std::byte* row = kv.row(slots[j]);
  for (std::int64_t i = 0, bytes = kv.row_bytes(); i < bytes; i += 64) __builtin_prefetch(row + i);
}

void AttentionBlock::stage_key(std::int64_t slot, std::byte* to) const {
  const LatentCache& kv = plan_.args.kv;
  GLINT_CHECK(slot < kv.num_slots, "a slot beyond the cache");
  const std::byte* row = kv.row(slot);
  const int size = plan_.size();
  if (kv.format != LatentFormat::kFp8) {
    plan_.kernels.convert(row, kv.format == LatentFormat::kBF16, to, plan_.as_bf16, plan_.width);
  } else {
    const auto* codes = reinterpret_cast<const std::uint8_t*>(row);
    const std::byte* scales = row + kv.latent_dim;
    const bool rounds = plan_.args.q_latent.dtype == DType::kBF16 && !plan_.as_bf16;
    for (std::int64_t d = 0; d < kv.latent_dim; d += 128, scales += sizeof(float)) {
      float scale;
      std::memcpy(&scale, scales, sizeof scale);
      const std::int64_t count = std::min<std::int64_t>(128, kv.latent_dim - d);
      if (rounds) {  // bf16 activations, computed in f32: latents are bf16 values all the same
        std::uint16_t bf16[128];
        plan_.kernels.dequantize(codes + d, scale, bf16, true, count);
        plan_.kernels.convert(bf16, true, to + d * size, false, count);
      } else {
        plan_.kernels.dequantize(codes + d, scale, to + d * size, plan_.as_bf16, count);
      }
    }
    plan_.kernels.convert(scales, true, to + kv.latent_dim * size, plan_.as_bf16, kv.rope_dim);
  }
  std::memset(to + plan_.width * size, 0,
              static_cast<std::size_t>((plan_.stride - plan_.width) * size));
}

// Keys as rows and their latents as panels. Those that do not exist are zeros.
void AttentionBlock::stage(const std::int32_t* slots, const Segment& keys) const {
  const std::int64_t row_bytes = plan_.stride * plan_.size();
  for (std::int64_t j = 0; j < keys.count; ++j) {
    prefetch_key(slots, keys.first + j + kPrefetch, keys.first + keys.count);
    stage_key(slots[keys.first + j], memory_.keys + j * row_bytes);
  }
  std::memset(memory_.keys + keys.count * row_bytes, 0,
              static_cast<std::size_t>((keys.staged - keys.count) * row_bytes));
  plan_.kernels.interleave({.rows = memory_.keys,
                            .stride = plan_.stride,
                            .num_rows = static_cast<int>(keys.staged),
                            .size = plan_.args.kv.latent_dim,
                            .panels = memory_.values,
                            .is_bf16 = plan_.as_bf16});
}

void AttentionBlock::sum_segment(const std::int32_t* slots, std::int64_t s, std::int64_t to) const {
  const std::int64_t first = s * kSegment, count = std::min(kSegment, items_.back().keys - first);
  const Segment keys = {.first = first, .count = count, .staged = aligned_up(count, kKeyAlign)};
  stage(slots, keys);
  for (std::int64_t panel = 0; panel < panels(); ++panel) weigh(panel, keys, to);
  sum_values(keys.staged, to);
}

void AttentionBlock::sum_all(const std::int32_t* slots) const {
  const std::int64_t segments = segments_of(items_.back().keys);
  for (std::int64_t s = 0; s < segments; ++s) {
    sum_segment(slots, s, std::min<std::int64_t>(s, 1));
    if (s == 0) continue;
    sums_.merge(plan_.kernels, 1, {0, plan_.latent_panels}, sums_.largest(0), sums_.sum(0));
  }
}

// Where items of the panel have no such key. Who has none of a segment gets sums that the factor
// e^-87 takes away when they are merged.
void AttentionBlock::fill_missing(std::int64_t panel, const Segment& keys, float value) const {
  for (const AttentionItem& item : items_) {
    if (item.first_row / kPanel != panel) continue;
    float* const lanes = memory_.scores + item.first_row % kPanel;
    for (std::int64_t j = std::max<std::int64_t>(0, item.keys - keys.first); j < keys.count; ++j) {
      std::fill_n(lanes + j * kPanel, item.heads, value);
    }
  }
}

// The scores of a panel's rows -> p, and its sums.
void AttentionBlock::weigh(std::int64_t panel, const Segment& keys, std::int64_t to) const {
  const Kernels& kernels = plan_.kernels;
  const int rows = rows_of(panel), panel_rows = rows <= kHalfPanel ? kHalfPanel : kPanel;
  plan_.family().decode_multiply[plan_.code()](
      {.w = queries(panel),
       .panel_rows = panel_rows,
       .x = memory_.keys,
       .x_stride = plan_.stride,
       .tokens = static_cast<int>(keys.count),
       .rows = static_cast<int>(keys.staged),
       .k = static_cast<int>(aligned_up(plan_.width, plan_.family().x_align)),
       .c = memory_.scores,
       .starts = true,
       .ahead = {.at = queries(panel)},
       .tiles = memory_.tiles});
  std::memset(memory_.scores + keys.count * kPanel, 0,
              static_cast<std::size_t>((keys.staged - keys.count) * kPanel) * sizeof(float));
  fill_missing(panel, keys, kMissing);
  kernels.softmax({.scores = memory_.scores,
                   .keys = static_cast<int>(keys.count),
                   .heads = panel_rows,
                   .scale = plan_.args.softmax_scale,
                   .largest = sums_.largest(to) + panel * kPanel,
                   .sum = sums_.sum(to) + panel * kPanel});
  fill_missing(panel, keys, 0);
  transpose_scores(keys.staged, rows, memory_.p + panel * kPanel * kPStride * plan_.size());
}

// [keys][kPanel] -> `rows` rows of p.
void AttentionBlock::transpose_scores(std::int64_t keys, int rows, std::byte* p) const {
  alignas(64) float transposed[kPanel * kPanel];
  for (std::int64_t j = 0; j < keys; j += kPanel) {
    plan_.kernels.pack[kCodeF32](
        {.rows = reinterpret_cast<const std::byte*>(memory_.scores + j * kPanel),
         .row_bytes = kPanel * sizeof(float),
         .bytes = kPanel * sizeof(float),
         .num_rows = kPanel,
         .panel_rows = kPanel,
         .panel = reinterpret_cast<std::byte*>(transposed)});
    plan_.kernels.store({.c = transposed,
                         .out = p + j * plan_.size(),
                         .out_bytes = kPStride * plan_.size(),
                         .rows = rows,
                         .size = kPanel,
                         .is_bf16 = plan_.as_bf16});
  }
}

void AttentionBlock::sum_values(std::int64_t keys, std::int64_t to) const {
  for (std::int64_t panel = 0; panel < plan_.latent_panels; ++panel) {
    const std::byte* const latents = memory_.values + panel * keys * kPanel * plan_.size();
    plan_.family().multiply[kCodeBf16]({.w = latents,
                                        .panel_rows = kPanel,
                                        .x = memory_.p,
                                        .x_stride = kPStride,
                                        .tokens = static_cast<int>(sums_.rows()),
                                        .rows = static_cast<int>(sums_.rows()),
                                        .k = static_cast<int>(keys),
                                        .c = sums_.values(to, panel),
                                        .starts = true,
                                        .ahead = {.at = latents},
                                        .tiles = memory_.tiles});
  }
}

}  // namespace glint::cpu
