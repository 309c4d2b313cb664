// The reference against fixtures and against formulas written another way; conformance_test.cc
// covers the shapes.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/reference/reference_ops.h"
#include "base/random.h"
#include "ops/kv_rows.h"

namespace glint {
namespace {

// A tensor that owns its memory.
template <class T>
struct Owned {
  explicit Owned(std::vector<T> values, std::initializer_list<std::int64_t> dims)
      : values(std::move(values)), tensor(this->values.data(), kDTypeOf<T>, dims) {}
  std::vector<T> values;
  Tensor tensor;
};

Owned<float> noise(int seed, std::initializer_list<std::int64_t> dims) {
  std::int64_t n = 1;
  for (const std::int64_t dim : dims) n *= dim;
  Random random(seed);
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(random.normal());
  return Owned<float>(std::move(values), dims);
}

TEST(Reference, router_toy_of_the_specification) {
  ReferenceOps ops;
  const Owned<float> logits({0.2f, -1, 2, 0.5f}, {1, 4}), bias({0, 0.9f, 0, -0.3f}, {4});
  const Owned<float> weights({0, 0}, {1, 2});
  const Owned<std::int32_t> ids({0, 0}, {1, 2});
  ops.route({.logits = logits.tensor,
             .bias = bias.tensor,
             .routed_scaling_factor = 2.5f,
             .ids = ids.tensor,
             .weights = weights.tensor});
  EXPECT_EQ(ids.values[0], 1);  // chosen through its bias, but weighted by the plain sigmoid
  EXPECT_EQ(ids.values[1], 2);
  EXPECT_NEAR(weights.values[0], 0.584788f, 1e-6);
  EXPECT_NEAR(weights.values[1], 1.915212f, 1e-6);
}

TEST(Reference, router_excludes_the_groups_that_lose) {
  ReferenceOps ops;
  // The best single expert (5) is alone in its group, which loses on the sum of two.
  const Owned<float> logits({1, 1, 0.5f, 0.6f, -8, 3}, {1, 6}), bias({0, 0, 0, 0, 0, 0}, {6});
  const Owned<float> weights({0, 0}, {1, 2});
  const Owned<std::int32_t> ids({0, 0}, {1, 2});
  ops.route({.logits = logits.tensor,
             .bias = bias.tensor,
             .n_group = 3,
             .topk_group = 1,
             .norm_topk_prob = false,
             .ids = ids.tensor,
             .weights = weights.tensor});
  EXPECT_EQ(ids.values, (std::vector<std::int32_t>{0, 1}));
  EXPECT_NEAR(weights.values[0], 1 / (1 + std::exp(-1.0)), 1e-6);
}

TEST(Reference, index_score_toy_of_the_specification_orders_its_keys) {
  // Scores 0.1767767, 0.0883883 and -0.0883883.
  ReferenceOps ops;
  std::vector<std::byte> memory(kPageSize * 4 * 4);
  const IndexCache cache = {memory.data(), IndexFormat::kF32, kPageSize, 4};
  const float keys[3][4] = {{1, 0, 1, 0}, {0, 1, 0, 1}, {-1, -1, 2, 2}};
  for (int i = 0; i < 3; ++i) write_index_key(cache, i, keys[i]);
  const Owned<float> q({1, 2, .5f, -1, 0, 1, 1, 0}, {1, 2, 4}), weights({0.5f, -0.25f}, {1, 2});
  const Owned<std::int32_t> positions({2}, {1}), seqs({0}, {1}), pages({0}, {1, 1});
  for (const auto& [k, expected] :
       {std::pair<int, std::vector<std::int32_t>>{1, {0}}, {2, {0, 1}}}) {
    const Owned<std::int32_t> out(std::vector<std::int32_t>(k), {1, k});
    ops.select_keys(
        {.q = q.tensor,
         .weights = weights.tensor,
         .batch = {.positions = positions.tensor, .seqs = seqs.tensor, .page_table = pages.tensor},
         .cache = cache,
         .out = out.tensor});
    EXPECT_EQ(out.values, expected);
  }
}

TEST(Reference, rope_turns_neighbours_or_halves) {
  // Position 1000 at theta 1e6: the specification's cos and sin of pairs 0 and 1.
  ReferenceOps ops;
  const Owned<float> table({0.5623791f, -0.5994148f, 0.8268795f, 0.8004385f}, {1, 4});
  const Owned<std::int32_t> positions({0}, {1});
  const Owned<float> interleaved({1, 2, 3, 4}, {1, 1, 4}), halves({1, 3, 2, 4}, {1, 1, 4});
  ops.rope({.x = interleaved.tensor, .positions = positions.tensor, .table = table.tensor});
  ops.rope({.x = halves.tensor,
            .positions = positions.tensor,
            .table = table.tensor,
            .interleaved = false});
  const std::vector<float> expected = {0.5623791f - 2 * 0.8268795f, 2 * 0.5623791f + 0.8268795f,
                                       3 * -0.5994148f - 4 * 0.8004385f,
                                       4 * -0.5994148f + 3 * 0.8004385f};
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(interleaved.values[i], expected[i], 1e-6);
    EXPECT_EQ(interleaved.values[i], halves.values[i % 2 * 2 + i / 2]);
  }
}

TEST(Reference, rms_norm_normalises_the_rounded_sum) {
  ReferenceOps ops;
  const BF16 one = to_bf16(1), tiny = to_bf16(0x1p-9f), big = to_bf16(1.5f);
  Owned<BF16> x({one, big}, {1, 2}), delta({tiny, big}, {1, 2}), weight({one, one}, {2});
  Owned<BF16> out({one, one}, {1, 2});
  ops.rms_norm(
      {.x = x.tensor, .delta = delta.tensor, .weight = weight.tensor, .eps = 0, .out = out.tensor});
  EXPECT_EQ(to_float(x.values[0]), 1);  // 1 + 2^-9 is not a bf16
  EXPECT_EQ(to_float(x.values[1]), 3);
  EXPECT_EQ(out.values[0].bits, to_bf16(static_cast<float>(1 / std::sqrt(5.0))).bits);
}

TEST(Reference, rms_norm_adds_a_bf16_delta_to_a_stream_in_f32_without_rounding_the_sum) {
  ReferenceOps ops;
  const BF16 one = to_bf16(1), tiny = to_bf16(0x1p-9f);
  Owned<float> x({1, 3}, {1, 2}), exact({0, 0}, {1, 2});
  Owned<BF16> delta({tiny, tiny}, {1, 2}), weight({one, one}, {2}), rounded({one, one}, {1, 2});
  ops.rms_norm({.x = x.tensor,
                .delta = delta.tensor,
                .weight = weight.tensor,
                .eps = 0,
                .out = rounded.tensor});
  ops.rms_norm({.x = x.tensor, .weight = weight.tensor, .eps = 0, .out = exact.tensor});
  EXPECT_EQ(x.values, (std::vector<float>{1 + 0x1p-9f, 3 + 0x1p-9f}));
  const double expected =
      (1 + 0x1p-9) / std::sqrt((std::pow(1 + 0x1p-9, 2) + std::pow(3 + 0x1p-9, 2)) / 2);
  EXPECT_FLOAT_EQ(exact.values[0], static_cast<float>(expected));
  EXPECT_EQ(rounded.values[0].bits, to_bf16(static_cast<float>(expected)).bits);
}

// Two experts whose scores differ by less than bf16 resolves: with any rounding of the stream or of
// the router's input they would tie, and expert 0 be chosen.
TEST(Reference, experts_are_chosen_by_what_was_never_rounded_to_bf16) {
  ReferenceOps ops;
  const BF16 zero = to_bf16(0), one = to_bf16(1);
  Owned<BF16> gate({zero, one, one, zero}, {2, 2}), up({one, one}, {1, 2}),
      down({one, one}, {2, 1});
  Owned<BF16> norm({one, one}, {2}), delta({to_bf16(0x1p-10f), zero}, {1, 2});
  Owned<float> bias({0, 0}, {2}), x({1, 1}, {1, 2});
  Owned<std::int32_t> routed({-1}, {1, 1});
  const auto weight = [](const Owned<BF16>& values, std::int64_t rows, std::int64_t cols) {
    return Weight{.format = WeightFormat::kBF16, .rows = rows, .cols = cols, .data = values.tensor};
  };
  // Both experts are the same matrix.
  const WeightStack in = stack_of(weight(up, 1, 2), 2, 0), out = stack_of(weight(down, 2, 1), 2, 0);
  const MoeWeights weights = {.gate = weight(gate, 2, 2),
                              .e_score_correction_bias = bias.tensor,
                              .gate_proj = in,
                              .up_proj = in,
                              .down_proj = out};
  const auto device = make_host_device();
  Arena scratch(*device);
  ops.moe({.weights = weights,
           .norm = norm.tensor,
           .eps = 0,
           .num_experts_per_tok = 1,
           .x = x.tensor,
           .delta = delta.tensor,
           .routed = routed.tensor},
          scratch);
  EXPECT_EQ(routed.values[0], 1);
}

TEST(Reference, layer_norm_centres_scales_and_shifts) {
  ReferenceOps ops;
  const Owned<float> x({1, 2, 3, 6}, {1, 4}), weight({1, 1, 1, 2}, {4}), bias({0, 0, 5, 0}, {4});
  const Owned<float> out({0, 0, 0, 0}, {1, 4});
  ops.layer_norm(
      {.x = x.tensor, .weight = weight.tensor, .bias = bias.tensor, .eps = 0, .out = out.tensor});
  const double deviation = std::sqrt((4 + 1 + 0 + 9) / 4.0);
  EXPECT_NEAR(out.values[0], -2 / deviation, 1e-6);
  EXPECT_NEAR(out.values[2], 5, 1e-6);
  EXPECT_NEAR(out.values[3], 2 * 3 / deviation, 1e-6);
}

TEST(Reference, linear_is_x_times_the_transposed_weight) {
  ReferenceOps ops;
  const Owned<float> x = noise(1, {3, 19}), w = noise(2, {5, 19});
  const Owned<float> out(std::vector<float>(15), {3, 5});
  const Weight weight = {.format = WeightFormat::kF32, .rows = 5, .cols = 19, .data = w.tensor};
  ops.linear({.x = x.tensor, .weight = weight, .out = out.tensor});
  for (int t = 0; t < 3; ++t) {
    for (int n = 0; n < 5; ++n) {
      double sum = 0;
      for (int k = 0; k < 19; ++k) sum += double{x.values[t * 19 + k]} * w.values[n * 19 + k];
      EXPECT_FLOAT_EQ(out.values[t * 5 + n], static_cast<float>(sum));
    }
  }
}

TEST(Reference, per_head_gives_every_head_its_matrix) {
  ReferenceOps ops;
  const Owned<float> x({1, 2, 3, 4}, {1, 2, 2}), w0({1, 0, 0, 1}, {2, 2}), w1({1, 1, 2, 0}, {2, 2});
  const Owned<float> out({0, 0, 0, 0}, {1, 2, 2});
  const Weight weights[] = {
      {.format = WeightFormat::kF32, .rows = 2, .cols = 2, .data = w0.tensor},
      {.format = WeightFormat::kF32, .rows = 2, .cols = 2, .data = w1.tensor}};
  ops.per_head({.x = x.tensor, .weights = stack_of(weights), .out = out.tensor});
  EXPECT_EQ(out.values, (std::vector<float>{1, 2, 7, 6}));
}

TEST(Reference, sparse_mla_over_all_keys_is_softmax_attention) {
  ReferenceOps ops;
  const int latent = 8, rope = 4, n = 5;
  std::vector<std::byte> memory(kPageSize * 4 * (latent + rope));
  const LatentCache cache = {memory.data(), LatentFormat::kF32, kPageSize, latent, rope};
  const Owned<float> rows = noise(3, {n, latent + rope});
  for (int i = 0; i < n; ++i) {
    const float* row = &rows.values[i * (latent + rope)];
    write_latent_row(cache, 10 + i, row, row + latent);
  }
  const Owned<float> q = noise(4, {1, 1, latent}), q_rope = noise(5, {1, 1, rope});
  const Owned<float> out = noise(6, {1, 1, latent}), lse({0}, {1, 1});
  const Owned<std::int32_t> indices({10, 11, 12, 13, 14, -1}, {1, 6});
  ops.sparse_mla({.q_latent = q.tensor,
                  .q_rope = q_rope.tensor,
                  .kv = cache,
                  .indices = indices.tensor,
                  .softmax_scale = 0.25f,
                  .out = out.tensor,
                  .lse = lse.tensor});
  double sum = 0, expected[latent] = {};
  for (int i = 0; i < n; ++i) {
    const float* row = &rows.values[i * (latent + rope)];
    double score = 0;
    for (int d = 0; d < latent; ++d) score += double{q.values[d]} * row[d];
    for (int d = 0; d < rope; ++d) score += double{q_rope.values[d]} * row[latent + d];
    sum += std::exp(score / 4);
    for (int d = 0; d < latent; ++d) expected[d] += std::exp(score / 4) * row[d];
  }
  for (int d = 0; d < latent; ++d) EXPECT_NEAR(out.values[d], expected[d] / sum, 1e-6);
  EXPECT_NEAR(lse.values[0], std::log(sum), 1e-6);
}

TEST(Reference, sparse_mla_without_keys_gives_zeros) {
  ReferenceOps ops;
  std::vector<std::byte> memory(kPageSize * 4 * 3);
  const LatentCache cache = {memory.data(), LatentFormat::kF32, kPageSize, 2, 1};
  const Owned<float> q({1, 2}, {1, 1, 2}), q_rope({3}, {1, 1, 1}), out({7, 7}, {1, 1, 2});
  const Owned<float> lse({0}, {1, 1});
  const Owned<std::int32_t> indices({-1, -1}, {1, 2});
  ops.sparse_mla({.q_latent = q.tensor,
                  .q_rope = q_rope.tensor,
                  .kv = cache,
                  .indices = indices.tensor,
                  .softmax_scale = 1,
                  .out = out.tensor,
                  .lse = lse.tensor});
  EXPECT_EQ(out.values, (std::vector<float>{0, 0}));
  EXPECT_EQ(lse.values[0], -INFINITY);
}

TEST(Reference, what_permute_scatters_combine_gathers) {
  ReferenceOps ops;
  const Owned<std::int32_t> ids({2, 0, 0, 2, 2, 1}, {3, 2}), rows({0, 0, 0, 0, 0, 0}, {6});
  const Owned<std::int32_t> offsets({0, 0, 0, 0, 0}, {5}), places({0, 0, 0, 0, 0, 0}, {3, 2});
  ops.permute(
      {.ids = ids.tensor, .rows = rows.tensor, .offsets = offsets.tensor, .places = places.tensor});
  EXPECT_EQ(offsets.values, (std::vector<std::int32_t>{0, 2, 3, 6, 6}));
  EXPECT_EQ(rows.values, (std::vector<std::int32_t>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(places.values, (std::vector<std::int32_t>{3, 0, 1, 4, 5, 2}));

  const Owned<float> y({0, 1, 2, 3, 4, 5}, {6, 1}), weights({1, 10, 1, 10, 1, 10}, {3, 2});
  const Owned<float> shared({100, 200, 300}, {3, 1}), out({0, 0, 0}, {3, 1});
  ops.combine({.y = y.tensor,
               .places = places.tensor,
               .weights = weights.tensor,
               .shared = shared.tensor,
               .out = out.tensor});
  EXPECT_EQ(out.values, (std::vector<float>{103, 241, 325}));
}

TEST(Reference, tokens_are_taken_up_to_the_first_wrong_draft) {
  ReferenceOps ops;
  // Both drafts of seat 0 are right, the second of seat 2 is wrong, seat 1 has no token,
  // and seat 3 drew nothing.
  const Owned<std::int32_t> tokens({5, 6, 7, 8, 9, 4, -1, 3}, {8});
  const Owned<std::int32_t> drafts({-1, 5, 6, -1, 8, 1, -1, 3}, {8});
  const Owned<std::int32_t> draws({0, 3, 0, 20, 3, 3, 2, -1, 6, 2, 1, -1, 8, 0, 3, 40}, {4, 4});
  const Owned<std::int32_t> last({-5, -6, -7, -8}, {4}), lengths({1, 2, 30, 4}, {4});
  const Owned<std::int32_t> rejected({9, 9, 9, 9}, {4});
  ops.accept({.tokens = tokens.tensor,
              .drafts = drafts.tensor,
              .draws = draws.tensor,
              .last = last.tensor,
              .lengths = lengths.tensor,
              .rejected = rejected.tensor});
  EXPECT_EQ(last.values, (std::vector<std::int32_t>{7, -6, 9, -8}));
  EXPECT_EQ(lengths.values, (std::vector<std::int32_t>{23, 2, 32, 40}));
  EXPECT_EQ(rejected.values, (std::vector<std::int32_t>{0, 2, 1, 0}));
}

// A sequence of 9 tokens whose last step had two drafts, of which one was wrong: the row that ran
// its last token but one, and that of the right draft, at the places that they had in that step.
TEST(Reference, rows_of_a_step_are_placed_again_without_wrong_drafts) {
  ReferenceOps ops;
  const Owned<std::int32_t> tokens({-2, -3, -4}, {3}), slices({0, 3, -4, 1}, {1, 4});
  const Owned<std::int32_t> pages({5}, {1, 1}), last({0, 0}, {2}), lengths({0, 9}, {2});
  const Owned<std::int32_t> rejected({0, 1}, {2}), guesses({50, 51, 52}, {3});
  const Owned<std::int32_t> ids({0, 0, 0}, {3}), positions({0, 0, 0}, {3});
  const Owned<std::int32_t> slots({0, 0, 0}, {3}), seqs({0, 0, 0}, {3});
  ops.place_rows({.tokens = tokens.tensor,
                  .slices = slices.tensor,
                  .page_table = pages.tensor,
                  .last = last.tensor,
                  .lengths = lengths.tensor,
                  .rejected = rejected.tensor,
                  .guesses = guesses.tensor,
                  .ids = ids.tensor,
                  .positions = positions.tensor,
                  .slots = slots.tensor,
                  .seqs = seqs.tensor});
  EXPECT_EQ(ids.values, (std::vector<std::int32_t>{50, 51, -1}));
  EXPECT_EQ(positions.values, (std::vector<std::int32_t>{6, 7, -1}));
  EXPECT_EQ(slots.values, (std::vector<std::int32_t>{5 * kPageSize + 6, 5 * kPageSize + 7, -1}));
  EXPECT_EQ(seqs.values, (std::vector<std::int32_t>{0, 0, -1}));
}

TEST(Reference, tokens_after_a_wrong_draft_are_not_counted) {
  ReferenceOps ops;
  // Two sequences with two drafts each: the first's are right, the second's first is wrong.
  const Owned<std::int32_t> tokens({0, 1, 1, 2, 2, 2}, {6}), drafts({-1, 0, 1, -1, 0, 2}, {6});
  const Owned<std::int32_t> seats({1, 1, 1, 0, 0, 0}, {6});
  const Owned<std::int32_t> counts({kCountOfPrompt, 0, kCountOfPrompt, 0, 0, 0}, {2, 3});
  ops.count_tokens({.tokens = tokens.tensor,
                    .drafts = drafts.tensor,
                    .seats = seats.tensor,
                    .counts = counts.tensor});
  EXPECT_EQ(counts.values,
            (std::vector<std::int32_t>{kCountOfPrompt, 0, kCountOfPrompt + kCountOfSaid,
                                       kCountOfSaid, 2 * kCountOfSaid, 0}));
}

TEST(Reference, chosen_experts_are_counted_layer_by_layer) {
  ReferenceOps ops;
  // Two layers of two tokens, the second of which is padding.
  const Owned<std::int32_t> ids({2, 0, -1, -1, 1, 2, -1, -1}, {4, 2});
  const Owned<std::int32_t> counts({5, 0, -1, 0, 0, 7}, {2, 3});  // -1: one more is 2^32
  ops.count_experts({.ids = ids.tensor, .counts = counts.tensor});
  EXPECT_EQ(counts.values, (std::vector<std::int32_t>{6, 0, 0, 0, 1, 8}));
}

TEST(ReferenceDeath, indices_outside_of_their_memory_abort) {
  ReferenceOps ops;
  const Owned<float> table({1, 2, 3, 4}, {2, 2}), out({0, 0}, {1, 2});
  const Owned<std::int32_t> ids({2}, {1});
  EXPECT_DEATH(ops.embed({.ids = ids.tensor, .table = table.tensor, .out = out.tensor}),
               "token 2 is not in \\[0, 2\\)");
  EXPECT_DEATH(ops.embed({.ids = ids.tensor, .table = table.tensor, .out = out.tensor, .first = 1}),
               "only the table of a part begins at another token");
  EXPECT_DEATH(ops.gather_rows({.x = table.tensor, .rows = ids.tensor, .out = out.tensor}),
               "row 2 is not in \\[0, 2\\)");
  std::vector<std::byte> memory(kPageSize * 4 * 3);
  const LatentCache cache = {memory.data(), LatentFormat::kF32, kPageSize, 2, 1};
  const Owned<float> latent({1, 2}, {1, 2}), k_rope({3}, {1, 1});
  const Owned<std::int32_t> slots({64}, {1});
  EXPECT_DEATH(ops.write_latent({.latent = latent.tensor,
                                 .k_rope = k_rope.tensor,
                                 .slots = slots.tensor,
                                 .cache = cache}),
               "slot 64 is not in \\[0, 64\\)");
}

TEST(ReferenceDeath, wrong_shapes_abort_naming_the_dim) {
  ReferenceOps ops;
  const Owned<float> x({1, 2, 3, 4}, {2, 2}), y({1, 2}, {1, 2});
  EXPECT_DEATH(ops.add({.x = x.tensor, .y = y.tensor}),
               "add: y\\[0\\] is 1, but T is 2 \\(from x\\[0\\]\\)");
}

}  // namespace
}  // namespace glint
