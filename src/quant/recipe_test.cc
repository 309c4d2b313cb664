#include "quant/recipe.h"

#include <gtest/gtest.h>

#include <set>

namespace glint {
namespace {

class RecipeTest : public testing::Test {
 protected:
  // Names of what is chosen, "*" for the experts.
  Result<std::set<std::string>> chosen(const Recipe& recipe) const {
    GLINT_TRY(const std::vector<bool> quantized, choose_quantized(recipe, config_, table_));
    std::set<std::string> names;
    for (std::size_t i = 0; i < table_.size(); ++i) {
      if (quantized[i]) names.insert(table_[i].name);
    }
    return names;
  }
  std::size_t count(const Recipe& recipe) const { return chosen(recipe).value().size(); }
  std::string refusal(const Recipe& recipe) const { return chosen(recipe).error().message; }

  const ModelConfig config_ = read_config(GLINT_SOURCE_DIR "/tests/data/configs/glm5.json").value();
  const std::vector<ModelTensor> table_ = model_tensors(config_);
};

TEST_F(RecipeTest, scopes) {
  EXPECT_EQ(count({.scope = Scope::kExperts}), 75 * 3);
  EXPECT_EQ(count({.scope = Scope::kExperts, .mtp = MtpChoice::kConvert}), 76 * 3);
  EXPECT_EQ(count({.scope = Scope::kMlp}), 75 * 6 + 3 * 3);
  // q_a, q_b, kv_a, kv_b, o; the indexer stays.
  EXPECT_EQ(count({.scope = Scope::kAllLinear}), 75 * 6 + 3 * 3 + 78 * 5);
}

TEST_F(RecipeTest, fp8_takes_what_the_published_release_has) {
  const auto names =
      chosen({.format = TargetFormat::kFp8, .scope = Scope::kAllLinear, .mtp = MtpChoice::kConvert})
          .value();
  EXPECT_EQ(names.size(), 76u * 6 + 3 * 3 + 79 * 7);
  EXPECT_TRUE(names.contains("model.layers.78.self_attn.indexer.wk"));
  for (const char* name :
       {"lm_head", "model.embed_tokens", "model.layers.3.mlp.gate", "model.layers.78.eh_proj",
        "model.layers.3.self_attn.indexer.weights_proj"}) {
    EXPECT_FALSE(names.contains(name)) << name;
  }
}

TEST_F(RecipeTest, rules_and_exclusions_are_globs_over_layer_names) {
  EXPECT_EQ(chosen({.rules = {"model.layers.[34].mlp.experts.*"}}).value().size(), 2u * 3);
  EXPECT_EQ(chosen({.rules = {"*.o_proj", "*.indexer.wk"}}).value().size(), 2u * 78);
  EXPECT_EQ(count({.scope = Scope::kMlp, .excludes = {"model.layers.[012].*"}}), 75 * 6);
}

TEST_F(RecipeTest, what_matches_nothing_is_refused) {
  EXPECT_TRUE(refusal({.rules = {"*.o_proj", "layers.3.*"}})
                  .starts_with("--rules \"layers.3.*\" matches no linear layer"));
  // Routers and embeddings are no linear layers that can be quantised; the MTP layer is left out.
  EXPECT_FALSE(chosen({.rules = {"*.mlp.gate"}}).ok());
  EXPECT_FALSE(chosen({.rules = {"lm_head"}}).ok());
  EXPECT_FALSE(chosen({.rules = {"model.layers.78.*"}}).ok());
  EXPECT_TRUE(refusal({.excludes = {"*.nothing"}}).starts_with("--exclude \"*.nothing\""));
  EXPECT_EQ(refusal({.excludes = {"*.experts.*"}}),
            "--exclude takes away all that was chosen; leave some of it");
  ModelConfig dense = config_;
  for (auto& layer : dense.layers) layer.mlp = MlpKind::kDense;
  EXPECT_EQ(choose_quantized({}, dense, model_tensors(dense)).error().message,
            "--scope experts is no layer of this model; give --scope all-linear");
}

TEST_F(RecipeTest, what_engines_load_as_one_is_not_cut_in_two) {
  EXPECT_NE(refusal({.rules = {"*.shared_experts.gate_proj"}})
                .find("a part of model.layers.3.mlp.shared_experts.gate_proj and up_proj only"),
            std::string::npos);
  EXPECT_NE(refusal({.rules = {"model.layers.3.mlp.experts.17.*"}})
                .find("a part of the routed experts of layer 3 only"),
            std::string::npos);
  EXPECT_NE(refusal({.excludes = {"model.layers.9.mlp.experts.*.down_proj"}})
                .find("the routed experts of layer 9"),
            std::string::npos);
  EXPECT_NE(refusal({.rules = {"*.q_a_proj"}}).find("q_a_proj and kv_a_proj_with_mqa"),
            std::string::npos);
}

}  // namespace
}  // namespace glint
