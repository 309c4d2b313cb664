// Cases of the attention blocks.
#include <algorithm>
#include <memory>

#include "ops/conformance/cases.h"

namespace glint::conformance {
namespace {

struct BlockShape {
  int hidden, q_lora;
  AttentionDims dims;
  std::vector<Sequence> sequences;
};

// Small, with odd sizes; then the real model's head dims.
std::vector<BlockShape> shapes() {
  const AttentionDims small = {.heads = 3,
                               .qk_nope_head_dim = 24,
                               .qk_rope_head_dim = 16,
                               .v_head_dim = 32,
                               .kv_lora_rank = 48,
                               .index_n_heads = 5,
                               .index_head_dim = 32,
                               .index_topk = 16,
                               .rms_norm_eps = 1e-5f,
                               .softmax_scale = 0.158f,
                               .indexer_rope_interleave = false};
  const AttentionDims real = {.heads = 2,
                              .qk_nope_head_dim = 192,
                              .qk_rope_head_dim = 64,
                              .v_head_dim = 256,
                              .kv_lora_rank = 512,
                              .index_n_heads = 8,
                              .index_head_dim = 128,
                              .index_topk = 64,
                              .rms_norm_eps = 1e-5f,
                              .softmax_scale = 0.0625f};
  return {{96, 48, small, {{0, 1}}},
          {96, 48, small, {{30, 2}, {0, 5}, {70, 1}}},
          {96, 48, small, {{14, 2}, {0, 5}}},
          {256, 128, real, {{100, 1}}},
          {96, 48, small, {{20, 2}, {-1, 2}, {5, 1}, {-1, 1}}},
          {256, 128, real, {{60, 7}, {0, 9}, {200, 1}}}};
}

// Values that an attention block's arguments refer to; the call's closure owns them.
struct Attention {
  AttentionDims dims;
  AttentionWeights weights;
};

std::shared_ptr<Attention> make_attention(Workspace& ws, const BlockShape& s, WeightFormat format) {
  const AttentionDims& d = s.dims;
  const int qk = d.qk_nope_head_dim + d.qk_rope_head_dim;
  auto a = std::make_shared<Attention>();
  a->dims = d;
  const auto heads = [&](std::int64_t rows, std::int64_t cols) {
    return ws.stack(WeightFormat::kBF16, d.heads, rows, cols);
  };
  a->weights = {
      .input_layernorm = ws.input(DType::kBF16, {s.hidden}),
      .q_a_proj = ws.weight(format, s.q_lora, s.hidden),
      .q_a_layernorm = ws.input(DType::kBF16, {s.q_lora}),
      .q_b_proj = ws.weight(format, d.heads * qk, s.q_lora),
      .kv_a_proj_with_mqa = ws.weight(format, d.kv_lora_rank + d.qk_rope_head_dim, s.hidden),
      .kv_a_layernorm = ws.input(DType::kBF16, {d.kv_lora_rank}),
      .w_uk = heads(d.kv_lora_rank, d.qk_nope_head_dim),
      .w_uv = heads(d.v_head_dim, d.kv_lora_rank),
      .o_proj = ws.weight(format, s.hidden, d.heads * d.v_head_dim),
      .indexer = {.wq_b = ws.weight(format, d.index_n_heads * d.index_head_dim, s.q_lora),
                  .wk = ws.weight(format, d.index_head_dim, s.hidden),
                  .weights_proj = ws.weight(WeightFormat::kBF16, d.index_n_heads, s.hidden),
                  .k_norm = ws.input(DType::kF32, {d.index_head_dim}),
                  .k_norm_bias = ws.input(DType::kF32, {d.index_head_dim})}};
  return a;
}

// Whether any keys are scored: else there is no query for the indexer.
bool scores_keys(const BlockShape& s) {
  return std::ranges::any_of(s.sequences, [&](const Sequence& sequence) {
    return sequence.first + sequence.count > s.dims.index_topk;
  });
}

// The caches that go with activations of `dtype`.
struct CacheFormats {
  LatentFormat latent;
  IndexFormat index;
};

std::vector<CacheFormats> cache_formats(DType dtype) {
  const CacheFormats exact = dtype == DType::kF32
                                 ? CacheFormats{LatentFormat::kF32, IndexFormat::kF32}
                                 : CacheFormats{LatentFormat::kBF16, IndexFormat::kBF16};
  return {exact, {LatentFormat::kFp8, IndexFormat::kFp8}};
}

Case block_case(const char* op, DType dtype, WeightFormat format, CacheFormats caches,
                const BlockShape& s) {
  const TestBatch batch = make_batch(s.sequences);
  return {.op = op,
          .name = str(short_name(dtype), " x ", name_of(format), ", ", name_of(caches.latent),
                      " cache, T ", batch.slots.size(), ", hidden ", s.hidden),
          .need = {.ops = {Op::kRmsNorm, Op::kLayerNorm, Op::kRope, Op::kLinear, Op::kPerHead,
                           Op::kWriteLatent, Op::kWriteIndex, Op::kSelectKeys, Op::kSparseMla},
                   .activations = {dtype},
                   .weights = {format, WeightFormat::kBF16},
                   .latents = {caches.latent},
                   .indexes = {caches.index}},
          .tolerance = tolerance_of(kBlockTolerance, dtype),
          .tokens = static_cast<std::int64_t>(batch.slots.size())};
}

Case attention_in_case(DType dtype, WeightFormat format, CacheFormats caches, const BlockShape& s,
                       bool selects = true) {
  Case c = block_case("attention_in", dtype, format, caches, s);
  if (!selects) c.name += ", keys given";
  // A value that is rounded the other way moves by a whole step of the cache's e4m3.
  if (caches.latent == LatentFormat::kFp8) c.tolerance = kFp8BlockTolerance;
  return with_composition(std::move(c), [=](Workspace& ws, bool composed) {
    const AttentionDims& d = s.dims;
    const TestBatch batch = make_batch(s.sequences);
    const std::int64_t T = static_cast<std::int64_t>(batch.slots.size());
    const auto attention = make_attention(ws, s, format);
    const int qk = d.qk_nope_head_dim + d.qk_rope_head_dim;
    const AttentionInArgs args = {
        .dims = attention->dims,
        .weights = attention->weights,
        .x = ws.updated("x", ws.input(DType::kF32, {T, s.hidden})),
        .delta = ws.tokens(ws.input(dtype, {T, s.hidden})),
        .batch = view_of(ws, batch, d.qk_rope_head_dim),
        .latent_cache =
            ws.latent_cache(caches.latent, batch.num_pages, d.kv_lora_rank, d.qk_rope_head_dim),
        .index_cache = ws.index_cache(caches.index, batch.num_pages, d.index_head_dim),
        .q = ws.output("q", dtype, {T, d.heads, qk}),
        .index_q = selects && scores_keys(s)
                       ? ws.output("index_q", dtype, {T, d.index_n_heads, d.index_head_dim})
                       : Tensor(),
        .index_weights = selects && scores_keys(s)
                             ? ws.output("index_weights", DType::kF32, {T, d.index_n_heads})
                             : Tensor(),
        .selection_given = !selects};
    ws.compare_rows(args.latent_cache, ws.tokens(batch.slots));
    if (selects) ws.compare_rows(args.index_cache, ws.tokens(batch.slots));
    return Call{[=, &ws] {
      (void)attention;  // owns what args refers to
      composed ? ws.ops().Ops::attention_in(args, ws.arena())
               : ws.ops().attention_in(args, ws.arena());
    }};
  });
}

Case attend_case(DType dtype, WeightFormat format, CacheFormats caches, const BlockShape& s) {
  return with_composition(block_case("attend", dtype, format, caches, s), [=](Workspace& ws,
                                                                              bool composed) {
    const AttentionDims& d = s.dims;
    const TestBatch batch = make_batch(s.sequences);
    const std::int64_t T = static_cast<std::int64_t>(batch.slots.size());
    const auto attention = make_attention(ws, s, format);
    // The last index_topk tokens of each sequence's step, with the token itself.
    std::vector<std::int32_t> selected(T * d.index_topk, -1);
    for (std::int64_t t = 0; t < T; ++t) {
      for (std::int64_t k = 0; k < d.index_topk && k <= t; ++k) {
        if (batch.seqs[t - k] != batch.seqs[t]) break;
        selected[t * d.index_topk + k] = batch.slots[t - k];
      }
    }
    const int qk = d.qk_nope_head_dim + d.qk_rope_head_dim;
    const AttendArgs args = {.dims = attention->dims,
                             .weights = attention->weights,
                             .q = ws.tokens(ws.input(dtype, {T, d.heads, qk})),
                             .latent_cache = ws.latent_cache(caches.latent, batch.num_pages,
                                                             d.kv_lora_rank, d.qk_rope_head_dim),
                             .selected = ws.tokens(ws.ints(selected, {T, d.index_topk})),
                             .out = ws.output("out", dtype, {T, d.heads, d.v_head_dim})};
    return Call{[=, &ws] {
      (void)attention;
      composed ? ws.ops().Ops::attend(args, ws.arena()) : ws.ops().attend(args, ws.arena());
    }};
  });
}

Case attention_out_case(DType dtype, WeightFormat format, const BlockShape& s) {
  const CacheFormats caches = cache_formats(dtype)[0];
  return with_composition(
      block_case("attention_out", dtype, format, caches, s), [=](Workspace& ws, bool composed) {
        const AttentionDims& d = s.dims;
        const std::int64_t T = static_cast<std::int64_t>(make_batch(s.sequences).slots.size());
        const auto weights = std::make_shared<AttentionWeights>();
        weights->o_proj = ws.weight(format, s.hidden, d.heads * d.v_head_dim);
        const AttentionOutArgs args = {
            .weights = *weights,
            .attended = ws.tokens(ws.input(dtype, {T, d.heads, d.v_head_dim})),
            .delta = ws.output("delta", dtype, {T, s.hidden})};
        return Call{[=, &ws] {
          (void)weights;
          composed ? ws.ops().Ops::attention_out(args, ws.arena())
                   : ws.ops().attention_out(args, ws.arena());
        }};
      });
}

}  // namespace

void add_attention_block_cases(std::vector<Case>& cases, bool timing) {
  if (timing) return;
  for (const DType dtype : kActivations) {
    for (const BlockShape& shape : shapes()) {
      for (const CacheFormats& caches : cache_formats(dtype)) {
        for (const WeightFormat format : {WeightFormat::kBF16, WeightFormat::kFp8Block}) {
          cases.push_back(attention_in_case(dtype, format, caches, shape));
        }
        cases.push_back(attention_in_case(dtype, WeightFormat::kBF16, caches, shape, false));
        cases.push_back(attend_case(dtype, WeightFormat::kBF16, caches, shape));
      }
      cases.push_back(attention_out_case(dtype, WeightFormat::kBF16, shape));
      cases.push_back(attention_out_case(dtype, WeightFormat::kNvfp4, shape));
    }
  }
}

}  // namespace glint::conformance
