#include "model/cut_weight.h"

#include <gtest/gtest.h>

#include "base/thread_pool.h"
#include "checkpoint/test_files.h"
#include "model/synthetic.h"
#include "model/test_config.h"

namespace glint {
namespace {

// The down projection [128, inter] and gate projection [inter, 128] of a synthetic expert.
struct Matrices {
  Matrices(Release release, int inter) {
    Json json = glm5_with(R"({"vocab_size": 64, "eos_token_id": 7, "hidden_size": 128,
          "num_hidden_layers": 1, "first_k_dense_replace": 0, "num_attention_heads": 2,
          "n_routed_experts": 2, "num_experts_per_tok": 1,
          "q_lora_rank": 64, "kv_lora_rank": 64, "qk_rope_head_dim": 16, "qk_nope_head_dim": 32,
          "qk_head_dim": 48, "v_head_dim": 32, "index_n_heads": 2, "index_head_dim": 32,
          "num_nextn_predict_layers": 0})");
    json.set("moe_intermediate_size", inter);
    const ModelConfig config = parse_config(json).value();
    const SyntheticModel model = SyntheticModel::plan(config, release, 1).value();
    checkpoint.emplace(
        make_dummy_checkpoint(model, pool, [](std::int64_t) { return true; }).value());
    down = checkpoint->weight("model.layers.0.mlp.experts.0.down_proj", 128, inter).value();
    gate = checkpoint->weight("model.layers.0.mlp.experts.0.gate_proj", inter, 128).value();
  }

  ThreadPool pool{2};
  std::vector<Buffer> owned;
  std::optional<Checkpoint> checkpoint;
  Weight down, gate;
};

struct Case {
  Release release;
  int inter, parts;
  WeightFormat rows, cols;  // of the parts
};

// A cut inside an FP8 block keeps the codes where it is at a 32nd row or column, one inside an
// NVFP4 group never; rows of NVFP4 have scales of their own.
const Case kCases[] = {
    {Release::kBF16, 60, 4, WeightFormat::kBF16, WeightFormat::kBF16},
    {Release::kFp8, 1024, 4, WeightFormat::kFp8Block, WeightFormat::kFp8Block},
    {Release::kFp8, 384, 4, WeightFormat::kFp8Block, WeightFormat::kFp8Block},
    {Release::kFp8, 256, 4, WeightFormat::kFp8Block, WeightFormat::kFp8Block},
    {Release::kFp8, 136, 4, WeightFormat::kF32, WeightFormat::kF32},
    {Release::kNvfp4, 256, 4, WeightFormat::kNvfp4, WeightFormat::kNvfp4},
    {Release::kNvfp4, 160, 4, WeightFormat::kNvfp4, WeightFormat::kF32},
};

TEST(CutWeight, every_number_is_that_of_the_whole) {
  for (const Case& c : kCases) {
    Matrices m(c.release, c.inter);
    const CutMemory memory = {m.pool, m.owned};
    const std::int64_t n = c.inter / c.parts;
    for (int part = 0; part < c.parts; ++part) {
      const Weight rows = cut_rows(m.gate, {part * n, n, n}, memory).value();
      const Weight cols = cut_columns(m.down, part, c.parts, memory).value();
      check_weight("rows", rows);
      check_weight("columns", cols);
      EXPECT_EQ(rows.format, c.rows) << c.inter;
      EXPECT_EQ(cols.format, c.cols) << c.inter;
      ASSERT_EQ(rows.rows, n);
      ASSERT_EQ(cols.cols, n);
      for (std::int64_t r = 0; r < n; ++r) {
        EXPECT_EQ(row_of(rows, r), row_of(m.gate, part * n + r)) << c.inter;
      }
      for (std::int64_t r = 0; r < 128; ++r) {
        const std::vector<float> whole = row_of(m.down, r);
        EXPECT_EQ(row_of(cols, r),
                  std::vector<float>(whole.begin() + part * n, whole.begin() + (part + 1) * n))
            << c.inter;
      }
    }
  }
}

TEST(CutWeight, rows_have_one_format_on_any_number_of_ranks) {
  Matrices m(Release::kFp8, 136);
  const CutMemory memory = {m.pool, m.owned};
  // Two ranks cut at 68, one nowhere; with four they would cut at 34.
  for (const int ranks : {1, 2, 4}) {
    const Weight part = cut_rows(m.gate, {0, 136 / ranks, 34}, memory).value();
    EXPECT_EQ(part.format, WeightFormat::kF32);
    EXPECT_EQ(row_of(part, 33), row_of(m.gate, 33));
  }
}

}  // namespace
}  // namespace glint
