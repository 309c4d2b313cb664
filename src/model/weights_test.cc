#include "model/weights.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/json.h"
#include "base/thread_pool.h"
#include "checkpoint/test_files.h"
#include "model/synthetic.h"
#include "model/test_config.h"

namespace glint {
namespace {

struct HeadDims {
  int nope, v;
};

// One dense layer with 3 heads, of 160 latents.
ModelConfig config_with(HeadDims head) {
  Json json = glm5_with(R"({
    "vocab_size": 64, "eos_token_id": 7, "hidden_size": 128, "intermediate_size": 64,
    "num_hidden_layers": 1, "first_k_dense_replace": 1, "num_attention_heads": 3, "q_lora_rank": 64, "kv_lora_rank": 160,
    "qk_rope_head_dim": 16, "index_n_heads": 2, "index_head_dim": 32, "num_nextn_predict_layers": 0})");
  json.set("qk_nope_head_dim", head.nope);
  json.set("v_head_dim", head.v);
  json.set("qk_head_dim", head.nope + 16);
  return parse_config(json).value();
}

// The largest difference of w_uk and w_uv from the rows of kv_b_proj, relative to the value.
double split_error(const Weight& kv_b, const AttentionWeights& w, HeadDims head) {
  double error = 0;
  const auto compare = [&](float value, float expected) {
    error = std::max(error, std::abs(double{value} - expected) / (std::abs(expected) + 1e-9));
  };
  for (std::int64_t h = 0; h < 3; ++h) {
    for (std::int64_t r = 0; r < head.nope + head.v; ++r) {
      const std::vector<float> row = row_of(kv_b, h * (head.nope + head.v) + r);
      for (std::int64_t k = 0; k < kv_b.cols; ++k) {
        const auto at = static_cast<std::size_t>(k);
        compare(r < head.nope ? row_of(w.w_uk[h], k)[static_cast<std::size_t>(r)]
                              : row_of(w.w_uv[h], r - head.nope)[at],
                row[at]);
      }
    }
  }
  return error;
}

// The halves that find_weights made of kv_b_proj: their formats, and split_error.
struct Split {
  WeightFormat w_uk, w_uv;
  double error;
};

Split split(Release release, HeadDims head) {
  ThreadPool pool(2);
  const ModelConfig config = config_with(head);
  const SyntheticModel model = SyntheticModel::plan(config, release, 1).value();
  Checkpoint checkpoint =
      make_dummy_checkpoint(model, pool, [](std::int64_t) { return true; }).value();
  const ModelWeights weights = find_weights(checkpoint, config, {}, pool).value();
  const AttentionWeights& w = weights.layers[0].attention;
  const Weight kv_b =
      checkpoint.weight("model.layers.0.self_attn.kv_b_proj", 3 * (head.nope + head.v), 160)
          .value();
  return {w.w_uk.format, w.w_uv.format, split_error(kv_b, w, head)};
}

TEST(Weights, halves_of_an_fp8_kv_b_proj_keep_their_codes) {
  // A head begins on a border of blocks, in the middle of one, at a quarter.
  for (const HeadDims head : {HeadDims{128, 128}, HeadDims{192, 256}, HeadDims{96, 64}}) {
    const Split halves = split(Release::kFp8, head);
    EXPECT_EQ(halves.w_uk, WeightFormat::kFp8Block) << head.nope;
    EXPECT_EQ(halves.w_uv, WeightFormat::kFp8Block) << head.nope;
    EXPECT_EQ(halves.error, 0) << head.nope;
  }
}

TEST(Weights, halves_of_an_fp8_kv_b_proj_that_begin_anywhere_become_bf16) {
  const Split halves = split(Release::kFp8, {24, 40});
  EXPECT_EQ(halves.w_uk, WeightFormat::kBF16);
  EXPECT_EQ(halves.w_uv, WeightFormat::kBF16);
  EXPECT_LT(halves.error, 1.0 / 256);
}

TEST(Weights, halves_of_a_bf16_kv_b_proj_are_its_values) {
  const Split halves = split(Release::kBF16, {24, 40});
  EXPECT_EQ(halves.w_uk, WeightFormat::kBF16);
  EXPECT_EQ(halves.error, 0);
}

}  // namespace
}  // namespace glint
