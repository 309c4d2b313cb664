#include "quant/matchers.h"

#include <gtest/gtest.h>

#include "base/contains.h"
#include "quant/descriptors.h"
#include "quant/recipe.h"

namespace glint {
namespace {

using Names = std::vector<std::string>;

bool vllm(const Names& excludes, std::string_view module) {
  return engine_excludes(ServingEngine::kVllm, excludes, module);
}
bool sglang(const Names& excludes, std::string_view module) {
  return engine_excludes(ServingEngine::kSglang, excludes, module);
}

TEST(Matchers, vllm_takes_names_parts_and_globs) {
  EXPECT_TRUE(vllm({"lm_head"}, "lm_head"));
  EXPECT_TRUE(vllm({"model.layers.3.self_attn"}, "model.layers.3.self_attn.o_proj"));
  EXPECT_TRUE(vllm({"model.layers.*.self_attn*"}, "model.layers.3.self_attn.o_proj"));
  EXPECT_FALSE(vllm({"model.layers.*.self_attn"}, "model.layers.3.self_attn.o_proj"));
  // A name is also a part of longer names.
  EXPECT_TRUE(vllm({"model.layers.0.mlp.gate"}, "model.layers.0.mlp.gate_up_proj"));
  EXPECT_TRUE(vllm({"a.gate_proj", "a.up_proj"}, "a.gate_up_proj"));
  EXPECT_FALSE(vllm({"a.gate_proj"}, "a.gate_up_proj"));
  EXPECT_TRUE(vllm({"m.q_a_proj", "m.kv_a_proj_with_mqa"}, "m.fused_qkv_a_proj"));
  EXPECT_TRUE(vllm({"m.mlp.experts.0.up_proj"}, "m.mlp.experts"));
  EXPECT_FALSE(vllm({"m.mlp.shared_experts*"}, "m.mlp.experts"));
}

TEST(Matchers, sglang_takes_names_and_expressions_of_whole_names_or_parts) {
  EXPECT_TRUE(sglang({"lm_head"}, "lm_head"));
  EXPECT_TRUE(sglang({"model.layers.*.self_attn*"}, "model.layers.3.self_attn.o_proj"));
  EXPECT_FALSE(sglang({"model.layers.3.self_attn"}, "model.layers.3.self_attn.o_proj"));
  EXPECT_TRUE(sglang({"self_attn"}, "model.layers.3.self_attn.o_proj"));
  EXPECT_TRUE(sglang({"a.gate_proj", "a.up_proj"}, "a.gate_up_proj"));
  // Matches any layer: SGLang looks for the entry's last part in the module's last part.
  EXPECT_TRUE(sglang({"x.kv_a_proj_with_mqa"}, "y.self_attn.fused_qkv_a_proj_with_mqa"));
  EXPECT_FALSE(sglang({"x.q_a_proj"}, "y.self_attn.fused_qkv_a_proj_with_mqa"));
  EXPECT_FALSE(sglang({"model.layers.3.mlp.gate"}, "model.layers.3.mlp.gate_up_proj"));
}

TEST(Matchers, lists_of_fp8_hold_names_alone) {
  constexpr ServingEngine kVllm = ServingEngine::kVllm, kSglang = ServingEngine::kSglang;
  const auto excludes = [](ServingEngine engine, const Names& names, std::string_view module) {
    return engine_excludes_fp8(engine, names, module);
  };
  for (const ServingEngine engine : kServingEngines) {
    EXPECT_TRUE(excludes(engine, {"m.self_attn.o_proj"}, "m.self_attn.o_proj"));
    EXPECT_FALSE(excludes(engine, {"*self_attn*"}, "m.self_attn.o_proj"));
    EXPECT_FALSE(excludes(engine, {"m.mlp.gate"}, "m.mlp.gate_up_proj"));
    EXPECT_TRUE(excludes(engine, {"a.gate_proj", "a.up_proj"}, "a.gate_up_proj"));
    EXPECT_TRUE(excludes(engine, {"m.mlp.experts.0.up_proj"}, "m.mlp.experts"));
  }
  EXPECT_FALSE(excludes(kVllm, {"m.self_attn"}, "m.self_attn.o_proj"));
  EXPECT_TRUE(excludes(kSglang, {"self_attn"}, "m.self_attn.o_proj"));
  EXPECT_TRUE(excludes(kSglang, {"m.mlp"}, "m.mlp.gate_up_proj"));
}

class ExcludesTest : public testing::Test {
 protected:
  Result<Names> excludes_of(const Recipe& recipe) const {
    GLINT_TRY(const std::vector<bool> quantized, choose_quantized(recipe, config_, table_));
    GLINT_TRY(const Descriptors descriptors,
              make_descriptors(Json::Object{}, config_, recipe, table_, quantized));
    return listed_excludes(*descriptors.config.find("quantization_config"));
  }
  const ModelConfig config_ = read_config(GLINT_SOURCE_DIR "/tests/data/configs/glm5.json").value();
  const std::vector<ModelTensor> table_ = model_tensors(config_);
};

TEST_F(ExcludesTest, of_experts_only_are_those_of_the_specification) {
  const Names excludes = excludes_of({}).value();
  for (const char* name :
       {"lm_head", "model.embed_tokens", "model.layers.0.mlp*", "model.layers.2.mlp*",
        "model.layers.3.mlp.gate", "model.layers.77.self_attn*",
        "model.layers.77.mlp.shared_experts*", "model.layers.78*"}) {
    EXPECT_TRUE(contains(excludes, name)) << name;
  }
  EXPECT_EQ(excludes.size(), 3u + 3 * 2 + 75 * 3 + 1);
}

TEST_F(ExcludesTest, both_engines_read_the_list_right_whatever_is_chosen) {
  // make_descriptors checks every module; here it is shown that the check would notice.
  for (const Scope scope : {Scope::kExperts, Scope::kMlp, Scope::kAllLinear}) {
    for (const MtpChoice mtp : {MtpChoice::kExclude, MtpChoice::kConvert}) {
      const Recipe recipe = {.scope = scope, .mtp = mtp};
      const Names excludes = excludes_of(recipe).value();
      const auto quantized = choose_quantized(recipe, config_, table_).value();
      for (const ServingEngine engine : {ServingEngine::kVllm, ServingEngine::kSglang}) {
        EXPECT_TRUE(misread_modules(engine, excludes, table_, quantized).empty());
        Names without_routers = excludes;
        std::erase_if(without_routers,
                      [](const std::string& name) { return name.ends_with(".mlp.gate"); });
        EXPECT_EQ(misread_modules(engine, without_routers, table_, quantized).size(),
                  mtp == MtpChoice::kConvert ? 76u : 75u);
      }
    }
  }
  EXPECT_TRUE(excludes_of({.rules = {"model.layers.*[02468].mlp.experts.*", "*.o_proj"}}).ok());
}

TEST_F(ExcludesTest, what_sglang_cannot_be_told_is_refused) {
  // It takes an entry that ends in q_b_proj for the q_b_proj of every layer.
  const auto refused = excludes_of({.rules = {"model.layers.3.self_attn.*_proj*"}});
  EXPECT_TRUE(refused.ok());  // whole attentions are told by wildcards
  const auto mixed =
      excludes_of({.rules = {"*.self_attn.o_proj", "model.layers.3.self_attn.q_b_proj"}});
  ASSERT_FALSE(mixed.ok());
  EXPECT_TRUE(mixed.error().message.starts_with("SGLang could not tell")) << mixed.error().message;
}

TEST_F(ExcludesTest, fp8_and_compressed_tensors_list_every_layer) {
  const Names fp8 =
      excludes_of(
          {.format = TargetFormat::kFp8, .scope = Scope::kAllLinear, .mtp = MtpChoice::kConvert})
          .value();
  EXPECT_EQ(fp8.size(), 2u + 76 + 79 + 1);  // embedding and head, routers, weights_proj, eh_proj
  const Names ct = excludes_of({.layout = Nvfp4Layout::kCompressedTensors}).value();
  EXPECT_TRUE(contains(ct, "model.layers.3.self_attn.q_a_proj"));
  EXPECT_TRUE(contains(ct, "re:model\\.layers\\.78\\.mlp\\.experts\\..*"));
  EXPECT_FALSE(contains(ct, "re:model\\.layers\\.77\\.mlp\\.experts\\..*"));
}

TEST_F(ExcludesTest, scale_fmt_is_said_only_if_it_is_true) {
  for (const Fp8ScaleFormat format : {Fp8ScaleFormat::kFp32, Fp8ScaleFormat::kUe8m0}) {
    const Recipe recipe = {
        .format = TargetFormat::kFp8, .scope = Scope::kAllLinear, .fp8_scales = format};
    const auto quantized = choose_quantized(recipe, config_, table_).value();
    const Json source = Json::Object{{"a", 1}, {"quantization_config", 2}, {"b", 3}};
    const Json config = make_descriptors(source, config_, recipe, table_, quantized).value().config;
    EXPECT_EQ(config.find("quantization_config")->find("scale_fmt") != nullptr,
              format == Fp8ScaleFormat::kUe8m0);
    EXPECT_EQ(config.as_object().size(), 3u);
  }
}

}  // namespace
}  // namespace glint
