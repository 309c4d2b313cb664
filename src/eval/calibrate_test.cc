// Calibration of the small checkpoints in tests/golden, on the reference backend.
#include "eval/calibrate.h"

#include <gtest/gtest.h>

#include <set>

#include "backends/reference/reference_ops.h"
#include "base/random.h"
#include "base/str.h"
#include "model/tensor_table.h"

namespace glint {
namespace {

constexpr const char* kGoldens[] = {"real_heads",     "odd",       "glm52_sharing",
                                    "deepseek_v32",   "fp8_block", "nvfp4_modelopt",
                                    "nvfp4_ct_mixed", "stacked"};

struct Tapped {
  explicit Tapped(const std::string& golden) {
    DecoratedBackend tapped(std::make_unique<ReferenceOps>());
    ops = &tapped.decorate<TapOps>();
    model = LoadedModel::load({.dir = str(GLINT_SOURCE_DIR, "/tests/golden/", golden),
                               .numbers = formats_in(DType::kF32),
                               .with_mtp = true},
                              std::move(tapped))
                .value();
  }
  Calibration run(const TokenSequences& prompts, int tokens_per_step = 64) {
    return calibrate(*model, *ops, prompts, {.tokens_per_step = tokens_per_step}).value();
  }

  TapOps* ops = nullptr;
  std::unique_ptr<LoadedModel> model;
};

TokenSequences random_prompts(std::uint64_t seed, std::initializer_list<int> lengths) {
  Random random(seed);
  TokenSequences prompts;
  for (const int length : lengths) {
    std::vector<TokenId>& ids = prompts.emplace_back();
    for (int i = 0; i < length; ++i) ids.push_back(static_cast<TokenId>(random.below(90)));
  }
  return prompts;
}

TEST(Calibrate, knows_every_layer_that_a_quantiser_may_convert) {
  for (const char* golden : kGoldens) {
    Tapped tapped(golden);
    std::set<std::string> expected, found;
    for (const ModelTensor& tensor : model_tensors(tapped.model->config())) {
      for (int copy = 0; tensor.is_quantizable && copy < tensor.num_copies(); ++copy)
        expected.insert(tensor.name_of_copy(copy));
    }
    for (const auto& [name, range] : tapped.run(random_prompts(1, {2})).ranges) found.insert(name);
    EXPECT_EQ(found, expected) << golden;
  }
}

TEST(Calibrate, every_layer_sees_every_token_and_experts_share_them) {
  Tapped tapped("odd");
  const ModelConfig& config = tapped.model->config();
  const Calibration result = tapped.run(random_prompts(2, {50, 1, 17}));
  EXPECT_EQ(result.tokens, 68);
  EXPECT_EQ(result.prompts, 3u);
  std::map<std::string, std::int64_t> tokens;  // of a layer's experts together
  for (const auto& [name, range] : result.ranges) {
    // The draft layer sees positions whose next token is known: one less of each prompt.
    const bool mtp = name.starts_with(str("model.layers.", config.num_hidden_layers, "."));
    const std::size_t experts = name.find(".experts.");
    if (experts != name.npos) {
      tokens[name.substr(0, experts) + name.substr(name.rfind('.'))] += range.tokens;
    } else {
      EXPECT_EQ(range.tokens, mtp ? 65 : 68) << name;
      EXPECT_GT(range.amax, 0) << name;
    }
  }
  EXPECT_EQ(tokens.at("model.layers.1.mlp.down_proj"), 68 * config.num_experts_per_tok);
  EXPECT_EQ(tokens.at("model.layers.2.mlp.gate_proj"), 65 * config.num_experts_per_tok);
}

TEST(Calibrate, does_not_depend_on_steps_nor_on_neighbours) {
  Tapped tapped("glm52_sharing");
  const TokenSequences prompts = random_prompts(3, {70, 3, 129, 1, 40});
  const ActivationRanges expected = tapped.run(prompts, 4096).ranges;
  for (const int tokens : {1, 7, 64, 100}) EXPECT_EQ(tapped.run(prompts, tokens).ranges, expected);
  ActivationRanges merged;
  for (const std::vector<TokenId>& ids : prompts) merge_into(merged, tapped.run({ids}).ranges);
  EXPECT_EQ(merged, expected);
}

TEST(Calibrate, stops_when_it_is_told_to_and_keeps_what_ran) {
  Tapped tapped("odd");
  const TokenSequences prompts = random_prompts(4, {40, 40, 40});
  int steps = 0;
  const auto twice = [&](std::int64_t) { return ++steps < 2; };
  const Calibration result =
      calibrate(*tapped.model, *tapped.ops, prompts, {.tokens_per_step = 32, .progress = twice})
          .value();
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(result.tokens, 64);
  EXPECT_EQ(result.prompts, 1u);
  EXPECT_EQ(result.ranges.at("model.layers.0.self_attn.q_a_proj").tokens, 64);
}

TEST(Calibrate, refuses_tokens_outside_the_vocabulary) {
  Tapped tapped("odd");
  EXPECT_FALSE(calibrate(*tapped.model, *tapped.ops, {{1, 2, 101}}, {}).ok());
}

TEST(Calibrate, unseen_experts_are_listed_by_layer) {
  ActivationRanges ranges;
  for (int e = 0; e < 12; ++e) {
    ranges[str("model.layers.10.mlp.experts.", e, ".gate_proj")] = {1, 1};
    ranges[str("model.layers.3.mlp.experts.", e, ".gate_proj")] = {1, 1};
    ranges[str("model.layers.3.mlp.experts.", e, ".down_proj")] = {0, 0};
  }
  EXPECT_TRUE(describe_unseen_experts(ranges).empty());
  ranges["model.layers.10.mlp.experts.2.gate_proj"] = {};
  ranges["model.layers.10.mlp.experts.11.gate_proj"] = {};
  ranges["model.layers.3.mlp.experts.0.gate_proj"] = {};
  EXPECT_EQ(describe_unseen_experts(ranges),
            (std::vector<std::string>{"layer 3: 1 of 12 experts (0)",
                                      "layer 10: 2 of 12 experts (2, 11)"}));
}

}  // namespace
}  // namespace glint
