// sparse_mla: for each token and up to 32 of its heads, over the selected keys:
//
//   scores   tile: the panel is the heads' queries, x are the keys           [key][head]
//   softmax  online, heads as lanes
//   values   tile: the panel is the transposed latents, x are the p's        [head][latent]
//
// The keys are cut into segments of kSegment by their place in `indices`, never by threads; a
// segment is summed alone and the segments of a token are added in order, so that one token's
// segments may run on different threads without changing a bit.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/cpu_ops.h"

namespace glint {

using namespace cpu;

namespace {

constexpr std::int64_t kSegment = 512;
constexpr std::int64_t kKeys = 128;     // at a time: their rows and panels stay in L2
constexpr std::int64_t kPrefetch = 6;   // rows ahead: selected keys lie apart in memory
constexpr std::int64_t kKeyAlign = 32;  // of what tiles read: at least any x_align

std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

// The sums of one segment.
struct Partial {
  float* largest;  // [kPanel]
  float* sum;      // [kPanel]
  float* values;   // [latent / kPanel, rounded up][heads][kPanel]
};

// The shapes of one call, and the memory of one thread.
struct Plan {
  const SparseMlaArgs& args;
  const Kernels& kernels;
  bool as_bf16;
  std::int64_t width, stride, latent_panels;  // elements of a row; of a staged row
  std::int64_t heads_per_group, groups;

  Plan(const SparseMlaArgs& args, const Products& products)
      : args(args),
        kernels(products.kernels()),
        as_bf16(products.in_bf16(args.q_latent.dtype, args.kv.format == LatentFormat::kF32
                                                          ? WeightFormat::kF32
                                                          : WeightFormat::kBF16)),
        width(args.kv.latent_dim + args.kv.rope_dim),
        stride(x_stride(width)),
        latent_panels(round_up(args.kv.latent_dim, kPanel) / kPanel),
        heads_per_group(std::min<std::int64_t>(kPanel, args.q_latent.dim(1))),
        groups(round_up(args.q_latent.dim(1), kPanel) / kPanel) {}

  int size() const { return as_bf16 ? 2 : 4; }
  Code code() const { return as_bf16 ? kCodeBf16 : kCodeF32; }
  const Family& family() const { return as_bf16 ? kernels.bf16 : kernels.f32; }
  std::int64_t partial_bytes() const {
    return (2 + latent_panels * heads_per_group) * kPanel * std::int64_t{sizeof(float)};
  }
  Partial partial(std::byte* at) const {
    auto* floats = reinterpret_cast<float*>(at);
    return {floats, floats + kPanel, floats + 2 * kPanel};
  }
};

struct Memory {
  std::byte *query_rows, *query, *rows, *p, *values;
  float* scores;
  std::byte* partials;
  TileRows* tiles;

  Memory(const Plan& plan, std::int64_t num_partials, Growing& growing, TileRows& tile_rows)
      : tiles(&tile_rows) {
    std::byte** const all[] = {&query_rows, &query, &rows, &p, &values, nullptr, &partials};
    const std::int64_t bytes[] = {kPanel * plan.stride * plan.size(),
                                  panel_bytes(plan.code(), kPanel, plan.width),
                                  kKeys * plan.stride * plan.size(),
                                  kPanel * (kKeys + 32) * plan.size(),
                                  plan.latent_panels * kPanel * kKeys * plan.size(),
                                  kKeys * kPanel * std::int64_t{sizeof(float)},
                                  num_partials * plan.partial_bytes()};
    std::int64_t total = 0;
    for (const std::int64_t n : bytes) total += round_up(n, 64);
    std::byte* at = growing.at_least(total);
    for (std::size_t i = 0; i < std::size(bytes); ++i) {
      if (all[i]) *all[i] = at;
      if (!all[i]) scores = reinterpret_cast<float*>(at);
      at += round_up(bytes[i], 64);
    }
  }
};

class Attention {
 public:
  Attention(const Plan& plan, const Memory& memory) : plan_(plan), memory_(memory) {}

  void load_query(std::int64_t t, std::int64_t group);
  void run_segment(const std::int32_t* slots, std::int64_t count, const Partial& out) const;

 private:
  void stage_key(std::int64_t slot, std::byte* to) const;
  void prefetch_key(const std::int32_t* slots, std::int64_t j, std::int64_t count) const;
  void add_keys(std::int64_t count, bool is_first, const Partial& out) const;

  const Plan& plan_;
  const Memory& memory_;
  int heads_ = 0, panel_rows_ = 0;
};

// The group's queries, latent and rope part side by side, as a panel.
void Attention::load_query(std::int64_t t, std::int64_t group) {
  const SparseMlaArgs& args = plan_.args;
  const std::int64_t h0 = group * kPanel;
  heads_ = static_cast<int>(std::min<std::int64_t>(kPanel, args.q_latent.dim(1) - h0));
  panel_rows_ = heads_ <= kHalfPanel ? kHalfPanel : kPanel;
  const std::int64_t row_bytes = plan_.stride * plan_.size();
  for (int h = 0; h < heads_; ++h) {
    std::byte* to = memory_.query_rows + h * row_bytes;
    for (const Tensor* q : {&args.q_latent, &args.q_rope}) {
      const std::int64_t at = t * q->stride[0] + (h0 + h) * q->stride[1];
      plan_.kernels.convert(q->data + at * size_of(q->dtype), q->dtype == DType::kBF16, to,
                            plan_.as_bf16, q->dim(2));
      to += q->dim(2) * plan_.size();
    }
  }
  plan_.kernels.pack[plan_.code()]({.rows = memory_.query_rows,
                                    .row_bytes = row_bytes,
                                    .bytes = plan_.width * plan_.size(),
                                    .num_rows = heads_,
                                    .panel_rows = panel_rows_,
                                    .panel = memory_.query,
                                    .ahead = 0,
                                    .next = nullptr,
                                    .past_caches = false});
}

void Attention::stage_key(std::int64_t slot, std::byte* to) const {
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

void Attention::prefetch_key(const std::int32_t* slots, std::int64_t j, std::int64_t count) const {
  const LatentCache& kv = plan_.args.kv;
  if (j >= count || slots[j] >= kv.num_slots) return;
  const std::byte* row = kv.row(slots[j]);
  for (std::int64_t i = 0, bytes = kv.row_bytes(); i < bytes; i += 64) __builtin_prefetch(row + i);
}

void Attention::run_segment(const std::int32_t* slots, std::int64_t count,
                            const Partial& out) const {
  std::fill_n(out.largest, kPanel, -std::numeric_limits<float>::infinity());
  std::fill_n(out.sum, kPanel, 0.0f);
  const std::int64_t row_bytes = plan_.stride * plan_.size();
  for (std::int64_t j0 = 0; j0 < count; j0 += kKeys) {
    const std::int64_t keys = std::min(kKeys, count - j0);
    for (std::int64_t j = 0; j < keys; ++j) {
      prefetch_key(slots, j0 + j + kPrefetch, count);
      stage_key(slots[j0 + j], memory_.rows + j * row_bytes);
    }
    // Values and p's of keys that do not exist are zeros.
    const std::int64_t aligned = round_up(keys, kKeyAlign);
    std::memset(memory_.rows + keys * row_bytes, 0,
                static_cast<std::size_t>((aligned - keys) * row_bytes));
    add_keys(keys, j0 == 0, out);
  }
}

void Attention::add_keys(std::int64_t keys, bool is_first, const Partial& out) const {
  const Kernels& kernels = plan_.kernels;
  const Family& family = plan_.family();
  const std::int64_t aligned = round_up(keys, kKeyAlign);
  family.decode_multiply[plan_.code()](
      {.w = memory_.query,
       .scale = nullptr,
       .panel_rows = panel_rows_,
       .x = memory_.rows,
       .x_stride = plan_.stride,
       .tokens = static_cast<int>(keys),
       .k = static_cast<int>(round_up(plan_.width, family.x_align)),
       .c = memory_.scores,
       .starts = true,
       .ahead = {.at = memory_.query},
       .scale_ahead = {},
       .tiles = memory_.tiles});
  std::memset(memory_.scores + keys * kPanel, 0,
              static_cast<std::size_t>((aligned - keys) * kPanel) * sizeof(float));
  float fade[kPanel];
  kernels.softmax({.scores = memory_.scores,
                   .keys = static_cast<int>(keys),
                   .heads = panel_rows_,
                   .scale = plan_.args.softmax_scale,
                   .largest = out.largest,
                   .sum = out.sum,
                   .fade = fade});
  constexpr std::int64_t kPStride = kKeys + 32;
  kernels.transpose(memory_.scores, static_cast<int>(aligned), heads_, memory_.p, plan_.as_bf16,
                    kPStride);
  kernels.interleave({.rows = memory_.rows,
                      .stride = plan_.stride,
                      .num_rows = static_cast<int>(aligned),
                      .size = plan_.args.kv.latent_dim,
                      .panels = memory_.values,
                      .is_bf16 = plan_.as_bf16});
  for (std::int64_t panel = 0; panel < plan_.latent_panels; ++panel) {
    float* values = out.values + panel * heads_ * kPanel;
    for (int h = 0; h < heads_ && !is_first; ++h) {
      if (fade[h] != 1) kernels.scale(values + h * kPanel, kPanel, fade[h]);
    }
    const std::byte* const transposed = memory_.values + panel * aligned * kPanel * plan_.size();
    family.multiply[kCodeBf16]({.w = transposed,
                                .scale = nullptr,
                                .panel_rows = kPanel,
                                .x = memory_.p,
                                .x_stride = kPStride,
                                .tokens = heads_,
                                .k = static_cast<int>(aligned),
                                .c = values,
                                .starts = is_first,
                                .ahead = {.at = transposed},
                                .scale_ahead = {},
                                .tiles = memory_.tiles});
  }
}

// Adds the segments of token t's group in order, divides by the sum, and writes out and lse.
void finish(const Plan& plan, std::int64_t t, std::int64_t group, std::byte* partials,
            std::int64_t segments) {
  const SparseMlaArgs& args = plan.args;
  const std::int64_t h0 = group * kPanel, latent = args.kv.latent_dim;
  const std::int64_t heads = std::min<std::int64_t>(kPanel, args.q_latent.dim(1) - h0);
  std::vector<float> weights(static_cast<std::size_t>(segments));
  std::vector<const void*> rows(static_cast<std::size_t>(segments));
  const auto partial = [&](std::int64_t s) {
    return plan.partial(partials + s * plan.partial_bytes());
  };
  for (std::int64_t h = 0; h < heads; ++h) {
    float largest = -std::numeric_limits<float>::infinity(), sum = 0;
    for (std::int64_t s = 0; s < segments; ++s) largest = std::max(largest, partial(s).largest[h]);
    for (std::int64_t s = 0; s < segments; ++s) {
      weights[static_cast<std::size_t>(s)] = std::exp(partial(s).largest[h] - largest);
      sum += partial(s).sum[h] * weights[static_cast<std::size_t>(s)];
    }
    if (args.lse) args.lse.row<float>(t)[h0 + h] = segments ? largest + std::log(sum) : largest;
    for (std::int64_t d = 0; d < latent; d += kPanel) {
      for (std::int64_t s = 0; s < segments; ++s) {
        rows[static_cast<std::size_t>(s)] = partial(s).values + (d * heads + h * kPanel);
      }
      float total[kPanel];
      plan.kernels.combine({.rows = rows.data(),
                            .weights = weights.data(),
                            .count = static_cast<int>(segments),
                            .shared = nullptr,
                            .out = total,
                            .size = kPanel,
                            .is_bf16 = false});
      const std::int64_t at = t * args.out.stride[0] + (h0 + h) * args.out.stride[1] + d;
      plan.kernels.store({.c = total,
                          .up = nullptr,
                          .scale = segments ? 1 / sum : 0,
                          .up_scale = 0,
                          .out = args.out.data + at * size_of(args.out.dtype),
                          .out_bytes = 0,
                          .rows = 1,
                          .size = static_cast<int>(std::min<std::int64_t>(kPanel, latent - d)),
                          .is_bf16 = args.out.dtype == DType::kBF16});
    }
  }
}

}  // namespace

void CpuOps::sparse_mla(const SparseMlaArgs& args) {
  check(args);
  const Plan plan(args, products_);
  const std::int64_t T = args.q_latent.dim(0), k = args.indices.dim(1);
  const auto slots = [&](std::int64_t t) { return args.indices.row<std::int32_t>(t); };
  // Keys of token t: the valid slots stand first.
  const auto keys_of = [&](std::int64_t t) {
    return std::partition_point(slots(t), slots(t) + k, [](std::int32_t s) { return s >= 0; }) -
           slots(t);
  };
  const auto segment = [&](Attention& attention, std::int64_t t, std::int64_t s, std::byte* to) {
    const std::int64_t first = s * kSegment;
    attention.run_segment(slots(t) + first, std::min(kSegment, keys_of(t) - first),
                          plan.partial(to));
  };
  const auto memory_of = [&](std::int64_t num_partials, int thread) {
    return Memory(plan, num_partials, attention_[static_cast<std::size_t>(thread)],
                  products_.scratch(thread).tiles);
  };
  const std::int64_t items = T * plan.groups, most = (k + kSegment - 1) / kSegment;
  if (items >= 2 * pool_.num_threads()) {
    pool_.run_dynamic(items, [&](std::int64_t item, int thread) {
      const std::int64_t t = item / plan.groups, group = item % plan.groups;
      const std::int64_t segments = (keys_of(t) + kSegment - 1) / kSegment;
      const Memory memory = memory_of(most, thread);
      Attention attention(plan, memory);
      attention.load_query(t, group);
      for (std::int64_t s = 0; s < segments; ++s) {
        segment(attention, t, s, memory.partials + s * plan.partial_bytes());
      }
      plan.kernels.leave_tiles(*memory.tiles);
      finish(plan, t, group, memory.partials, segments);
    });
    return;
  }
  // Few tokens: a task for each segment, then one for each token.
  std::byte* partials = partials_.at_least(items * most * plan.partial_bytes());
  pool_.run_dynamic(items * most, [&](std::int64_t task, int thread) {
    const std::int64_t item = task / most, s = task % most;
    const std::int64_t t = item / plan.groups, group = item % plan.groups;
    if (s * kSegment >= keys_of(t)) return;
    const Memory memory = memory_of(0, thread);
    Attention attention(plan, memory);
    attention.load_query(t, group);
    segment(attention, t, s, partials + task * plan.partial_bytes());
    plan.kernels.leave_tiles(*memory.tiles);
  });
  pool_.run(items, [&](std::int64_t item, int) {
    const std::int64_t t = item / plan.groups, group = item % plan.groups;
    finish(plan, t, group, partials + item * most * plan.partial_bytes(),
           (keys_of(t) + kSegment - 1) / kSegment);
  });
}

}  // namespace glint
