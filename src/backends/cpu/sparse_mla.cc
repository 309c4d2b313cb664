// sparse_mla: for each token and up to 32 of its heads, over the selected keys:
//
//   scores   tile: the panel is the heads' queries, x are the keys           [key][head]
//   softmax  online, heads as lanes
//   values   tile: the panel is the transposed latents, x are the p's        [head][latent]
//
// The keys are cut into segments of kSegment by their place in `indices`, never by threads; a
// segment is summed alone and the segments of a token are added in order, so that one token's
// segments may run on different threads without changing a bit.
//
// Keys are staged, and transposed, once for several panels of queries: the heads of a token, and
// tokens after each other whose keys are the same but for the last ones, as in a prompt whose keys
// are all selected.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "backends/cpu/cpu_ops.h"

namespace glint {

using namespace cpu;

namespace {

constexpr std::int64_t kSegment = 512;
constexpr std::int64_t kKeys = 128;     // at a time: their rows and panels stay in L2
constexpr std::int64_t kPrefetch = 6;   // rows ahead: selected keys lie apart in memory
constexpr std::int64_t kKeyAlign = 32;  // of what tiles read: at least any x_align
constexpr std::int64_t kQueries = 4;    // panels of queries at a time: their sums stay in L2

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
                                  kQueries * panel_bytes(plan.code(), kPanel, plan.width),
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

// Up to kPanel heads of a token.
struct Query {
  std::int64_t token, group;
  std::int64_t keys;    // the first of the block's
  std::byte* partials;  // one a segment
  int heads = 0, panel_rows = 0;
};

// A block of queries, by descending `keys`.
class Attention {
 public:
  Attention(const Plan& plan, const Memory& memory, std::span<Query> queries)
      : plan_(plan), memory_(memory), queries_(queries) {
    for (std::size_t i = 0; i < queries.size(); ++i) load_query(i);
  }

  // Segment `s` of the keys `slots` of the first query, for all queries.
  void run_segment(const std::int32_t* slots, std::int64_t s) const;

 private:
  void load_query(std::size_t i);
  std::byte* panel(std::size_t i) const {
    return memory_.query +
           static_cast<std::int64_t>(i) * panel_bytes(plan_.code(), kPanel, plan_.width);
  }
  void stage_key(std::int64_t slot, std::byte* to) const;
  void prefetch_key(const std::int32_t* slots, std::int64_t j, std::int64_t count) const;
  void add_keys(std::size_t i, std::int64_t keys, std::int64_t staged, bool is_first,
                const Partial& out) const;

  const Plan& plan_;
  const Memory& memory_;
  std::span<Query> queries_;
};

// Its queries, latent and rope part side by side, as a panel.
void Attention::load_query(std::size_t i) {
  const SparseMlaArgs& args = plan_.args;
  Query& query = queries_[i];
  const std::int64_t h0 = query.group * kPanel;
  query.heads = static_cast<int>(std::min<std::int64_t>(kPanel, args.q_latent.dim(1) - h0));
  query.panel_rows = query.heads <= kHalfPanel ? kHalfPanel : kPanel;
  const std::int64_t row_bytes = plan_.stride * plan_.size();
  for (int h = 0; h < query.heads; ++h) {
    std::byte* to = memory_.query_rows + h * row_bytes;
    for (const Tensor* q : {&args.q_latent, &args.q_rope}) {
      const std::int64_t at = query.token * q->stride[0] + (h0 + h) * q->stride[1];
      plan_.kernels.convert(q->data + at * size_of(q->dtype), q->dtype == DType::kBF16, to,
                            plan_.as_bf16, q->dim(2));
      to += q->dim(2) * plan_.size();
    }
  }
  plan_.kernels.pack[plan_.code()]({.rows = memory_.query_rows,
                                    .row_bytes = row_bytes,
                                    .bytes = plan_.width * plan_.size(),
                                    .num_rows = query.heads,
                                    .panel_rows = query.panel_rows,
                                    .panel = panel(i),
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

void Attention::run_segment(const std::int32_t* slots, std::int64_t s) const {
  const std::int64_t first = s * kSegment, row_bytes = plan_.stride * plan_.size();
  const std::int64_t count = std::min(kSegment, queries_[0].keys - first);
  const auto partial = [&](const Query& query) {
    return plan_.partial(query.partials + s * plan_.partial_bytes());
  };
  for (const Query& query : queries_) {
    if (query.keys <= first) continue;
    std::fill_n(partial(query).largest, kPanel, -std::numeric_limits<float>::infinity());
    std::fill_n(partial(query).sum, kPanel, 0.0f);
  }
  for (std::int64_t j0 = 0; j0 < count; j0 += kKeys) {
    const std::int64_t keys = std::min(kKeys, count - j0);
    for (std::int64_t j = 0; j < keys; ++j) {
      prefetch_key(slots, first + j0 + j + kPrefetch, first + count);
      stage_key(slots[first + j0 + j], memory_.rows + j * row_bytes);
    }
    // Values and p's of keys that do not exist are zeros.
    const std::int64_t staged = round_up(keys, kKeyAlign);
    std::memset(memory_.rows + keys * row_bytes, 0,
                static_cast<std::size_t>((staged - keys) * row_bytes));
    plan_.kernels.interleave({.rows = memory_.rows,
                              .stride = plan_.stride,
                              .num_rows = static_cast<int>(staged),
                              .size = plan_.args.kv.latent_dim,
                              .panels = memory_.values,
                              .is_bf16 = plan_.as_bf16});
    for (std::size_t i = 0; i < queries_.size(); ++i) {
      const std::int64_t own = std::min(keys, queries_[i].keys - first - j0);
      if (own > 0) add_keys(i, own, staged, j0 == 0, partial(queries_[i]));
    }
  }
}

// The first `keys` of those staged, to the sums of query i.
void Attention::add_keys(std::size_t i, std::int64_t keys, std::int64_t staged, bool is_first,
                         const Partial& out) const {
  const Kernels& kernels = plan_.kernels;
  const Family& family = plan_.family();
  const auto& [token, group, all_keys, partials, heads, panel_rows] = queries_[i];
  const std::byte* const query = panel(i);
  family.decode_multiply[plan_.code()](
      {.w = query,
       .scale = nullptr,
       .panel_rows = panel_rows,
       .x = memory_.rows,
       .x_stride = plan_.stride,
       .tokens = static_cast<int>(keys),
       .rows = static_cast<int>(staged),
       .k = static_cast<int>(round_up(plan_.width, family.x_align)),
       .c = memory_.scores,
       .starts = true,
       .ahead = {.at = query},
       .scale_ahead = {},
       .tiles = memory_.tiles});
  std::memset(memory_.scores + keys * kPanel, 0,
              static_cast<std::size_t>((staged - keys) * kPanel) * sizeof(float));
  float fade[kPanel];
  kernels.softmax({.scores = memory_.scores,
                   .keys = static_cast<int>(keys),
                   .heads = panel_rows,
                   .scale = plan_.args.softmax_scale,
                   .largest = out.largest,
                   .sum = out.sum,
                   .fade = fade});
  constexpr std::int64_t kPStride = kKeys + 32;
  kernels.transpose(memory_.scores, static_cast<int>(staged), heads, memory_.p, plan_.as_bf16,
                    kPStride);
  for (std::int64_t panel = 0; panel < plan_.latent_panels; ++panel) {
    float* values = out.values + panel * heads * kPanel;
    for (int h = 0; h < heads && !is_first; ++h) {
      if (fade[h] != 1) kernels.scale(values + h * kPanel, kPanel, fade[h]);
    }
    const std::byte* const transposed = memory_.values + panel * staged * kPanel * plan_.size();
    family.multiply[kCodeBf16]({.w = transposed,
                                .scale = nullptr,
                                .panel_rows = kPanel,
                                .x = memory_.p,
                                .x_stride = kPStride,
                                .tokens = heads,
                                .rows = heads,
                                .k = static_cast<int>(staged),
                                .c = values,
                                .starts = is_first,
                                .ahead = {.at = transposed},
                                .scale_ahead = {},
                                .tiles = memory_.tiles});
  }
}

std::int64_t segments_of(std::int64_t keys) { return (keys + kSegment - 1) / kSegment; }

// Adds a query's segments in order, divides by the sum, and writes out and lse.
void finish(const Plan& plan, const Query& query) {
  const SparseMlaArgs& args = plan.args;
  const std::int64_t t = query.token, segments = segments_of(query.keys);
  const std::int64_t h0 = query.group * kPanel, latent = args.kv.latent_dim;
  const std::int64_t heads = std::min<std::int64_t>(kPanel, args.q_latent.dim(1) - h0);
  std::vector<float> weights(static_cast<std::size_t>(segments));
  std::vector<const void*> rows(static_cast<std::size_t>(segments));
  const auto partial = [&](std::int64_t s) {
    return plan.partial(query.partials + s * plan.partial_bytes());
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
  const Plan plan(args, products_);
  const Slots slots{args.indices};
  const std::int64_t items = args.q_latent.dim(0) * plan.groups;
  const std::int64_t most = segments_of(args.indices.dim(1));
  const auto query_of = [&](std::int64_t item, std::byte* partials) {
    const std::int64_t t = item / plan.groups;
    return Query{
        .token = t, .group = item % plan.groups, .keys = slots.count(t), .partials = partials};
  };
  const auto memory_of = [&](std::int64_t num_partials, int thread) {
    return Memory(plan, num_partials, attention_[static_cast<std::size_t>(thread)],
                  products_.scratch(thread).tiles);
  };
  if (items >= 2 * pool_.num_threads()) {
    const std::int64_t size =
        std::clamp<std::int64_t>(items / (4 * pool_.num_threads()), 1, kQueries);
    const std::vector<std::int64_t> blocks = blocks_of(slots, items, plan.groups, size);
    const auto num_blocks = static_cast<std::int64_t>(blocks.size()) - 1;
    pool_.run_dynamic(num_blocks, [&](std::int64_t block, int thread) {
      const std::int64_t* const ends = blocks.data() + block;
      const Memory memory = memory_of(kQueries * most, thread);
      std::vector<Query> queries;
      for (std::int64_t item = ends[1]; item-- > ends[0];) {
        const auto n = static_cast<std::int64_t>(queries.size());
        queries.push_back(query_of(item, memory.partials + n * most * plan.partial_bytes()));
      }
      const Attention attention(plan, memory, queries);
      for (std::int64_t s = 0; s < segments_of(queries[0].keys); ++s) {
        attention.run_segment(slots.of(queries[0].token), s);
      }
      plan.kernels.leave_tiles(*memory.tiles);
      for (const Query& query : queries) finish(plan, query);
    });
    return;
  }
  // Few tokens: a task for each segment, then one for each token.
  std::byte* partials = partials_.at_least(items * most * plan.partial_bytes());
  const auto query_alone = [&](std::int64_t item) {
    return query_of(item, partials + item * most * plan.partial_bytes());
  };
  pool_.run_dynamic(items * most, [&](std::int64_t task, int thread) {
    Query query = query_alone(task / most);
    if (task % most >= segments_of(query.keys)) return;
    const Memory memory = memory_of(0, thread);
    const Attention attention(plan, memory, {&query, 1});
    attention.run_segment(slots.of(query.token), task % most);
    plan.kernels.leave_tiles(*memory.tiles);
  });
  pool_.run(items, [&](std::int64_t item, int) { finish(plan, query_alone(item)); });
}

}  // namespace glint
