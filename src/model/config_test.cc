#include "model/config.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/test_dir.h"
#include "model/kv_store.h"

namespace glint {
namespace {

Json glm5() { return read_json_file(GLINT_SOURCE_DIR "/tests/data/configs/glm5.json").value(); }

Json without(Json json, std::string_view key) {
  std::erase_if(json.as_object(), [&](const Json::Member& member) { return member.first == key; });
  return json;
}

Json with(Json json, std::string_view key, Json value) {
  json.set(key, std::move(value));
  return json;
}

Json parse(std::string_view text) { return parse_json(text).value(); }

ModelConfig parsed(const Json& json) {
  Result<ModelConfig> config = parse_config(json);
  EXPECT_TRUE(config.ok()) << config.error().message;
  return config.ok() ? config.value() : ModelConfig{};
}

std::string refusal(const Json& json) {
  const Result<ModelConfig> config = parse_config(json);
  return config.ok() ? "accepted" : config.error().message;
}

std::int64_t token_bytes(const ModelConfig& config, LatentFormat latent, bool with_mtp) {
  return page_bytes(config, {.latent = latent, .with_mtp = with_mtp}) / kPageSize;
}

// DeepSeek-V3.2 as published; what equals GLM-5 is taken from there.
Json deepseek() {
  Json json = without(without(glm5(), "indexer_rope_interleave"), "rope_parameters");
  const Json differences = parse(R"({
    "architectures": ["DeepseekV32ForCausalLM"], "model_type": "deepseek_v32",
    "hidden_size": 7168, "intermediate_size": 18432, "num_hidden_layers": 61,
    "num_attention_heads": 128, "num_key_value_heads": 128, "q_lora_rank": 1536,
    "qk_nope_head_dim": 128, "qk_head_dim": 192, "v_head_dim": 128, "n_group": 8, "topk_group": 4,
    "index_n_heads": 64, "vocab_size": 129280, "eos_token_id": 1, "rms_norm_eps": 1e-06,
    "max_position_embeddings": 163840, "rope_theta": 10000,
    "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096,
                     "beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0}})");
  for (const auto& [key, value] : differences.as_object()) json.set(key, value);
  return json;
}

std::vector<int> layers_with_indexer(const ModelConfig& config) {
  std::vector<int> layers;
  for (int i = 0; i < config.num_hidden_layers; ++i) {
    if (config.layers[static_cast<std::size_t>(i)].has_indexer) layers.push_back(i);
  }
  return layers;
}

TEST(Config, glm5_is_read_whole) {
  const ModelConfig config = parsed(glm5());
  EXPECT_EQ(config.vocab_size, 154880);
  EXPECT_EQ(config.num_hidden_layers, 78);
  EXPECT_EQ(config.num_nextn_predict_layers, 1);
  EXPECT_EQ(config.layers.size(), 79u);
  EXPECT_TRUE(config.layers[2].is_dense());
  EXPECT_FALSE(config.layers[3].is_dense());
  EXPECT_FALSE(config.layers[78].is_dense());
  EXPECT_EQ(layers_with_indexer(config).size(), 78u);
  EXPECT_EQ(config.qk_head_dim(), 256);
  EXPECT_EQ(config.softmax_scale, 0.0625f);
  EXPECT_EQ(config.routed_scaling_factor, 2.5f);
  EXPECT_TRUE(config.indexer_rope_interleave);
  EXPECT_FALSE(config.rope.is_yarn());
  EXPECT_EQ(config.rope.theta, 1e6);
  EXPECT_EQ(config.eos_token_ids, (std::vector<TokenId>{154820, 154827, 154829}));
}

TEST(Config, patched_glm5_files_mean_the_same_as_the_original) {
  const ModelConfig original = parsed(glm5());
  const auto same = [&](const Json& patched) {
    const ModelConfig config = parsed(patched);
    EXPECT_EQ(config.rope.theta, original.rope.theta);
    EXPECT_EQ(config.indexer_rope_interleave, original.indexer_rope_interleave);
    EXPECT_EQ(config.softmax_scale, original.softmax_scale);
    EXPECT_EQ(config.layers, original.layers);
    EXPECT_EQ(config.n_group, original.n_group);
  };
  Json patched = with(glm5(), "model_type", "deepseek_v32");
  same(patched);
  patched.set("architectures", parse(R"(["DeepseekV32ForCausalLM"])"));
  patched.set("rope_theta", 1000000);
  patched.set("rope_scaling", parse(R"({"type": "none", "factor": 1.0})"));
  same(patched);
  same(without(patched, "rope_parameters"));
  same(without(patched, "indexer_rope_interleave"));
  same(with(with(without(glm5(), "dtype"), "torch_dtype", "bfloat16"), "rope_scaling", nullptr));
}

TEST(Config, a_small_patched_glm_is_told_from_deepseek_by_its_values) {
  Json json = with(without(glm5(), "indexer_rope_interleave"), "model_type", "deepseek_v32");
  json.set("architectures", parse(R"(["DeepseekV32ForCausalLM"])"));
  json.set("qk_nope_head_dim", 24);
  json.set("qk_head_dim", 88);
  EXPECT_TRUE(parsed(json).indexer_rope_interleave);
  json.set("rms_norm_eps", 1e-6);
  EXPECT_FALSE(parsed(json).indexer_rope_interleave);
  EXPECT_TRUE(parsed(with(json, "indexer_rope_interleave", true)).indexer_rope_interleave);
}

TEST(Config, deepseek_v32_has_groups_yarn_and_a_half_split_indexer) {
  const ModelConfig config = parsed(deepseek());
  EXPECT_EQ(config.n_group, 8);
  EXPECT_EQ(config.topk_group, 4);
  EXPECT_FALSE(config.indexer_rope_interleave);
  EXPECT_EQ(config.rope.factor, 40);
  EXPECT_EQ(config.rope.original_max_position_embeddings, 4096);
  EXPECT_FLOAT_EQ(config.softmax_scale, 1.3688879f * 1.3688879f / std::sqrt(192.0f));
}

TEST(Config, glm52_shares_indexers_by_frequency_and_offset) {
  Json json = with(with(glm5(), "index_topk_freq", 4), "index_skip_topk_offset", 3);
  json.set("index_topk_pattern", nullptr);
  json.set("index_share_for_mtp_iteration", true);
  const ModelConfig config = parsed(json);
  std::vector<int> expected = {0, 1, 2};
  for (int i = 6; i < 78; i += 4) expected.push_back(i);
  EXPECT_EQ(layers_with_indexer(config), expected);
  EXPECT_EQ(expected.size(), 21u);
  EXPECT_TRUE(config.layers[78].has_indexer);
  EXPECT_TRUE(config.index_share_for_mtp_iteration);
  EXPECT_EQ(token_bytes(config, LatentFormat::kBF16, false), 92628);
  EXPECT_EQ(token_bytes(config, LatentFormat::kFp8, false), 53940);
}

TEST(Config, explicit_indexer_lists_win_over_patterns_and_patterns_over_frequencies) {
  Json json = with(with(glm5(), "num_hidden_layers", 8), "index_topk_freq", 4);
  json.set("index_skip_topk_offset", 3);
  EXPECT_EQ(layers_with_indexer(parsed(json)), (std::vector<int>{0, 1, 2, 6}));
  json.set("index_topk_pattern", "FSFSFSFS");
  EXPECT_EQ(layers_with_indexer(parsed(json)), (std::vector<int>{0, 2, 4, 6}));
  json.set("index_topk_pattern", "FSFSFSFSF");  // the last of the MTP layer
  EXPECT_EQ(layers_with_indexer(parsed(json)), (std::vector<int>{0, 2, 4, 6}));
  json.set("index_topk_pattern",
           parse(R"(["full", "shared", "full", "full", "full", "full", "full", "full"])"));
  EXPECT_EQ(layers_with_indexer(parsed(json)), (std::vector<int>{0, 2, 3, 4, 5, 6, 7}));
  json.set("indexer_types", parse(R"(["full", "shared", "shared", "shared", "shared", "shared",
                                      "shared", "full"])"));
  EXPECT_EQ(layers_with_indexer(parsed(json)), (std::vector<int>{0, 7}));
}

TEST(Config, layers_are_dense_by_list_or_by_count) {
  Json json = with(glm5(), "num_hidden_layers", 2);
  json.set("first_k_dense_replace", 1);
  EXPECT_TRUE(parsed(json).layers[0].is_dense());
  json.set("mlp_layer_types", parse(R"(["sparse", "dense"])"));
  EXPECT_FALSE(parsed(json).layers[0].is_dense());
  EXPECT_TRUE(parsed(json).layers[1].is_dense());
  EXPECT_TRUE(parsed(without(glm5(), "first_k_dense_replace")).layers[2].is_dense());
  EXPECT_TRUE(parsed(with(glm5(), "first_k_dense_replace", 100)).layers[77].is_dense());
  EXPECT_FALSE(parsed(with(glm5(), "first_k_dense_replace", 100)).layers[78].is_dense());
  EXPECT_EQ(parsed(with(glm5(), "first_k_dense_replace", 79)).num_moe_layers(), 0);
}

TEST(Config, of_several_mtp_layers_the_first_is_used) {
  Json json = with(with(glm5(), "num_hidden_layers", 2), "num_nextn_predict_layers", 3);
  json.set("mlp_layer_types", parse(R"(["dense", "sparse", "sparse", "sparse", "sparse"])"));
  const ModelConfig config = parsed(json);
  EXPECT_EQ(config.num_nextn_predict_layers, 1);
  EXPECT_EQ(config.num_unused_mtp_layers, 2);
  EXPECT_EQ(config.num_layers_with_mtp(), 3);
  json.set("mlp_layer_types", parse(R"(["dense", "sparse", "sparse", "sparse", "dense"])"));
  EXPECT_EQ(refusal(json), "mlp_layer_types says \"dense\" of an MTP layer; expected \"sparse\"");
}

TEST(Config, cache_bytes_per_token_equal_the_specification) {
  const ModelConfig config = parsed(glm5());
  EXPECT_EQ(token_bytes(config, LatentFormat::kBF16, false), 100152);
  EXPECT_EQ(token_bytes(config, LatentFormat::kBF16, true), 101436);
  EXPECT_EQ(token_bytes(config, LatentFormat::kFp8, false), 61464);
  EXPECT_EQ(token_bytes(config, LatentFormat::kFp8, true), 62252);
}

TEST(Config, refuses_what_it_cannot_run_in_one_sentence) {
  const std::tuple<const char*, Json, const char*> cases[] = {
      {"model_type", "llama",
       "model_type is \"llama\"; expected \"glm_moe_dsa\" (GLM-5, 5.1, 5.2) or \"deepseek_v32\""},
      {"model_type", nullptr,
       "model_type is missing, architectures names \"GlmMoeDsaForCausalLM\"; expected"},
      {"model_type", "", "model_type is missing"},
      {"num_attention_heads", 0, "num_attention_heads is 0; expected 1 to 4096"},
      {"hidden_size", -6144, "hidden_size is -6144; expected 1 to 262144"},
      {"hidden_size", parse("99999999999999999999"),
       "hidden_size is 99999999999999999999; expected"},
      {"num_hidden_layers", "78", "num_hidden_layers is the text \"78\"; expected an integer"},
      {"num_hidden_layers", 78.5, "num_hidden_layers is 78.5; expected an integer"},
      {"q_lora_rank", nullptr, "q_lora_rank is missing; expected an integer"},
      {"rms_norm_eps", "tiny", "rms_norm_eps is the text \"tiny\"; expected a number"},
      {"rms_norm_eps", 0, "rms_norm_eps is 0; expected 1e-12 to 1"},
      {"norm_topk_prob", 1, "norm_topk_prob is 1; expected true or false"},
      {"scoring_func", "softmax", "scoring_func is \"softmax\"; only \"sigmoid\" is supported"},
      {"topk_method", "greedy", "topk_method is \"greedy\"; only \"noaux_tc\" is supported"},
      {"hidden_act", "gelu", "hidden_act is \"gelu\"; only \"silu\" is supported"},
      {"hidden_act", 3, "hidden_act is 3; expected a text"},
      {"attention_bias", true, "attention_bias is true; projections with a bias"},
      {"rope_interleave", false, "rope_interleave is false; only interleaved"},
      {"qk_head_dim", 192, "qk_head_dim is 192 but qk_nope_head_dim + qk_rope_head_dim is 256"},
      {"index_head_dim", 32, "index_head_dim is 32, less than qk_rope_head_dim 64"},
      {"num_experts_per_tok", 257, "num_experts_per_tok is 257, more than the 256 experts"},
      {"n_group", 7, "n_routed_experts is 256, no multiple of n_group 7"},
      {"n_group", 256, "a group of experts has one member"},
      {"topk_group", 2, "topk_group is 2, more than n_group 1"},
      {"first_k_dense_replace", -1, "first_k_dense_replace is -1; expected 0 to 1024"},
      {"num_nextn_predict_layers", -1, "num_nextn_predict_layers is -1; expected 0 to 1024"},
      {"mlp_layer_types", parse(R"(["dense"])"), "mlp_layer_types has 1 entries for 78 layers"},
      {"mlp_layer_types", parse("[1]"), "mlp_layer_types holds 1; expected only texts"},
      {"indexer_types", "full", "indexer_types is the text \"full\"; expected a list of texts"},
      {"index_topk_pattern", "FS", "index_topk_pattern has 2 entries for 78 layers"},
      {"index_topk_pattern", std::string(78, 'F') + "S",
       "index_topk_pattern says \"S\" of an MTP layer; expected \"F\""},
      {"index_topk_pattern", parse(R"(["full"])"), "index_topk_pattern has 1 entries for 78"},
      {"index_skip_topk_offset", 0, "accepted"},
      {"eos_token_id", "</s>",
       "eos_token_id holds the text \"</s>\"; expected token ids from 0 to 154879: vocab_size is "
       "154880"},
      {"eos_token_id", -1,
       "eos_token_id holds -1; expected token ids from 0 to 154879: vocab_size is 154880"},
      {"eos_token_id", Json::Array{154820, 154880},
       "eos_token_id holds 154880; expected token ids from 0 to 154879: vocab_size is 154880"},
      {"rope_parameters", "none", "rope_parameters is a text; expected an object"},
      {"rope_theta", 10000, "rope_theta is 10000 but rope_parameters.rope_theta is 1e+06"},
      {"rope_scaling", parse(R"({"type": "linear", "factor": 2})"),
       "rope_scaling: type \"linear\" is not supported; expected"},
      {"rope_scaling", parse(R"({"type": "none", "factor": 4})"),
       "rope_scaling: type \"none\" with factor 4 is a contradiction"},
      {"quantization_config",
       parse(
           R"({"transform_config": {"config_groups": {"u": {"apply": [{"location": "output"}]}}}})"),
       "quantization_config.transform_config rotates inputs or outputs of layers"},
  };
  for (const auto& [key, value, message] : cases) {
    const std::string found = refusal(with(glm5(), key, value));
    EXPECT_TRUE(found.starts_with(message)) << key << ": " << found;
  }
  const Json in_weights = parse(R"({"transform_config": [{"location": "weight_input"}]})");
  EXPECT_EQ(refusal(with(glm5(), "quantization_config", in_weights)), "accepted");
  EXPECT_EQ(refusal(Json::Array{}), "expected an object, found a list");
  EXPECT_EQ(refusal(without(glm5(), "rope_parameters")),
            "rope_theta is missing; expected it in rope_parameters or beside it");
  EXPECT_EQ(refusal(with(with(glm5(), "index_topk_freq", 4), "index_skip_topk_offset", 0)),
            "layer 0 shares an indexer, but there is no earlier layer to share with");
}

TEST(Config, refuses_yarn_that_it_does_not_know) {
  const auto scaled = [](std::string_view key, Json value) {
    Json json = deepseek();
    Json scaling = *json.find("rope_scaling");
    scaling.set(key, std::move(value));
    json.set("rope_scaling", scaling);
    return refusal(json);
  };
  EXPECT_EQ(scaled("mscale_all_dim", -1), "rope_scaling: mscale_all_dim is -1; expected 0 to 1000");
  EXPECT_EQ(scaled("factor", 0.5), "rope_scaling: factor is 0.5; expected 1 to 1e+06");
  EXPECT_EQ(scaled("original_max_position_embeddings", nullptr),
            "rope_scaling: original_max_position_embeddings is missing; expected an integer");
  EXPECT_EQ(scaled("beta_fast", 0.5), "rope_scaling: beta_fast 0.5 is below beta_slow 1");
  Json both = deepseek();
  both.set("rope_parameters", parse(R"({"rope_type": "default", "rope_theta": 10000})"));
  EXPECT_EQ(refusal(both), "rope_parameters and rope_scaling disagree about the scaling");
  // Without a type it only tells theta.
  both.set("rope_parameters", parse(R"({"rope_theta": 10000})"));
  EXPECT_EQ(parsed(both), parsed(deepseek()));
  both.set("rope_parameters", parse(R"({"factor": 40})"));
  EXPECT_EQ(refusal(both), "rope_parameters: type \"default\" with factor 40 is a contradiction");
}

class ConfigFile : public testing::Test {
 protected:
  std::string write(std::string_view text) { return dir_.write("config.json", text); }

  const TestDir dir_;
  const std::string path_ = dir_ / "config.json";
};

TEST_F(ConfigFile, errors_name_the_file) {
  EXPECT_EQ(read_config(write("{")).error().message, path_ + ": line 1, column 2: incomplete JSON");
  EXPECT_EQ(read_config(write("{}")).error().message,
            path_ +
                ": model_type is missing; expected \"glm_moe_dsa\" (GLM-5, 5.1, 5.2) or "
                "\"deepseek_v32\"");
  EXPECT_EQ(read_config(write("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"))
                .error()
                .message,
            path_ + " is a git-lfs pointer, not the file: run \"git lfs pull\" beside it");
  const std::string nesting = read_config(write(std::string(100000, '['))).error().message;
  EXPECT_TRUE(nesting.starts_with(path_ + ": line 1, column ")) << nesting;
}

TEST_F(ConfigFile, sampling_defaults_come_from_the_generation_config) {
  const GenerationConfig config =
      read_generation_config(write(R"({"eos_token_id": [5, 3], "temperature": 0.6, "top_p": 0.95,
                                       "top_k": 20, "do_sample": true})"),
                             100)
          .value();
  EXPECT_EQ(config.temperature, 0.6);
  EXPECT_EQ(config.top_p, 0.95);
  EXPECT_EQ(config.top_k, 20);
  ModelConfig model;
  model.eos_token_ids = {3, 9};
  EXPECT_EQ(stop_ids(model, config), (std::vector<TokenId>{3, 5, 9}));
  EXPECT_EQ(read_generation_config(write(R"({"do_sample": false})"), 100).value().temperature, 0);
  EXPECT_EQ(read_generation_config(write(R"({"top_k": -1})"), 100).value().top_k,
            0);  // vLLM's "all"
  EXPECT_EQ(read_generation_config(path_ + ".absent", 100).value().temperature, 1);
  EXPECT_EQ(read_generation_config(write(R"({"top_p": 0})"), 100).error().message,
            path_ + ": top_p is 0; expected 1e-06 to 1");
  EXPECT_EQ(read_generation_config(write(R"({"eos_token_id": [99, 100]})"), 100).error().message,
            path_ + ": eos_token_id holds 100; expected token ids from 0 to 99: vocab_size is 100");
  const Json other = parse_json(R"({"temperature": 0.1})").value();
  EXPECT_EQ(parse_generation_config(other, 100, config).value().eos_token_ids,
            config.eos_token_ids);
}

}  // namespace
}  // namespace glint
