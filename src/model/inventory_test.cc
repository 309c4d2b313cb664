#include "model/inventory.h"

#include <map>

#include "base/test_dir.h"
#include "checkpoint/test_files.h"
#include "model/release.h"
#include "model/test_config.h"

namespace glint {
namespace {

// One dense layer, hidden 16: few tensors, all of one letter of data.
Json tiny_json() {
  return glm5_with(R"({
    "vocab_size": 8, "eos_token_id": 7, "hidden_size": 16, "intermediate_size": 16, "moe_intermediate_size": 16,
    "num_hidden_layers": 2, "first_k_dense_replace": 1, "index_topk_pattern": "FS",
    "num_attention_heads": 1, "q_lora_rank": 16, "kv_lora_rank": 8, "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8, "qk_head_dim": 16, "v_head_dim": 16, "n_routed_experts": 2,
    "num_experts_per_tok": 1, "index_n_heads": 1, "index_head_dim": 16})");
}

std::vector<TestTensor> tensors_of(const ModelConfig& config, Release release) {
  std::vector<TensorSpec> specs;
  for (const ModelTensor& tensor : model_tensors(config)) {
    for (int expert = 0; expert < tensor.num_copies(); ++expert) {
      append_specs(tensor, expert, format_in(release, tensor, config), specs);
    }
  }
  std::vector<TestTensor> tensors;
  for (const TensorSpec& spec : specs) {
    tensors.push_back(
        {spec.name, name_of(spec.type), describe_shape(spec.shape),
         std::string(static_cast<std::size_t>(spec.bytes()), '\1')});  // no scale is 0
  }
  return tensors;
}

class InventoryTest : public testing::Test {
 protected:
  Inventory take(const std::vector<TestTensor>& tensors) {
    dir_.write("model.safetensors", safetensors_file(tensors));
    Checkpoint checkpoint = Checkpoint::open(dir_.path()).value();
    return take_inventory(config_, checkpoint).value();
  }

  const TestDir dir_;
  ModelConfig config_ = parse_config(tiny_json()).value();
};

TEST_F(InventoryTest, a_complete_checkpoint_has_every_parameter_and_byte_in_a_row) {
  for (const Release release : {Release::kBF16, Release::kFp8, Release::kNvfp4}) {
    const Inventory inventory = take(tensors_of(config_, release));
    EXPECT_TRUE(inventory.missing.empty() && inventory.extra.empty() && inventory.faults.empty());
    EXPECT_TRUE(inventory.has_mtp);
    std::int64_t parameters = 0, bytes = 0;
    for (const Inventory::Row& row : inventory.rows) {
      parameters += row.parameters;
      bytes += row.bytes;
      if (row.role != TensorRole::kRoutedExpert) continue;
      EXPECT_EQ(row.tensors, release == Release::kNvfp4 ? 6 : 12) << row.format;
    }
    EXPECT_EQ(parameters, count_parameters(config_).total());
    // An nvfp4 matrix also has an input_scale, which weight-only products do not need.
    EXPECT_EQ(inventory.ignored.size(), release == Release::kNvfp4 ? 6u : 0u);
    EXPECT_EQ(bytes + std::ssize(inventory.ignored) * 4, inventory.bytes);
    EXPECT_EQ(inventory.bytes, release_bytes(config_, release, true));
  }
}

TEST_F(InventoryTest, what_is_missing_extra_ignored_or_faulty_is_named) {
  auto tensors = tensors_of(config_, Release::kFp8);
  std::erase_if(tensors, [](const TestTensor& tensor) {
    return tensor.name.starts_with("model.layers.0.self_attn.o_proj");
  });
  for (TestTensor& tensor : tensors) {
    if (tensor.name == "model.layers.0.self_attn.q_a_proj.weight") tensor.shape = "[256]";
  }
  const std::string one(4, '\0');
  tensors.push_back({"model.layers.0.self_attn.q_b_proj.input_scale", "F32", "[1]", one});
  tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", "F32", "[1]", one});
  tensors.push_back({"model.layers.1.self_attn.indexer.wk.weight", "F32", "[1]", one});
  tensors.push_back({"model.layers.2.embed_tokens.weight", "F32", "[1]", one});
  tensors.push_back({"model.layers.2.shared_head.head.weight", "F32", "[1]", one});
  tensors.push_back({"model.layers.2.shared_head.head.weight_scale", "F32", "[1]", one});
  tensors.push_back({"model.layers.0.surprise", "F32", "[1]", one});
  tensors.push_back({"model.layers.9999999999999.x", "F32", "[1]", one});
  const Inventory inventory = take(tensors);
  EXPECT_EQ(inventory.missing, std::vector<std::string>{"model.layers.0.self_attn.o_proj"});
  EXPECT_EQ(inventory.extra,
            (std::vector<std::string>{"model.layers.0.surprise", "model.layers.9999999999999.x"}));
  EXPECT_EQ(inventory.ignored.size(), 6u);
  ASSERT_EQ(inventory.faults.size(), 1u);
  EXPECT_EQ(inventory.faults[0], dir_ / "model.safetensors" +
                                     ": tensor \"model.layers.0.self_attn.q_a_proj.weight\" is "
                                     "F8_E4M3 [256]; expected F8_E4M3 [16, 16]");
}

TEST_F(InventoryTest, an_mtp_layer_that_is_not_there_is_not_missing_tensor_by_tensor) {
  auto tensors = tensors_of(config_, Release::kBF16);
  std::erase_if(
      tensors, [](const TestTensor& tensor) { return tensor.name.starts_with("model.layers.2."); });
  const Inventory inventory = take(tensors);
  EXPECT_FALSE(inventory.has_mtp);
  EXPECT_TRUE(inventory.missing.empty());
}

TEST_F(InventoryTest, a_draft_layer_must_be_whole_only_where_it_is_used) {
  auto tensors = tensors_of(config_, Release::kBF16);
  std::erase_if(tensors, [](const TestTensor& t) {
    return t.name == "model.layers.2.mlp.gate.weight" || t.name == "model.layers.2.enorm.weight";
  });
  const Inventory lacking = take(tensors);
  EXPECT_TRUE(lacking.check_complete("m", false).ok());
  EXPECT_EQ(lacking.check_complete("m", true).error().message,
            str("m: tensor ", quoted(lacking.missing[0]),
                " is missing, and 1 more; the model needs every one"));
  for (TestTensor& t : tensors) {
    if (t.name == "model.layers.2.eh_proj.weight") t.shape = "[512]";
  }
  const Inventory faulty = take(tensors);
  EXPECT_TRUE(faulty.check_complete("m", false).ok());
  EXPECT_EQ(faulty.check_complete("m", true).error().message, faulty.faults[0]);
  std::erase_if(tensors, [](const TestTensor& t) { return t.name == "lm_head.weight"; });
  EXPECT_EQ(take(tensors).check_complete("m", false).error().message,
            "m: tensor \"lm_head\" is missing; the model needs every one");
}

TEST_F(InventoryTest, a_layer_beyond_those_of_the_config_is_no_draft_layer) {
  auto tensors = tensors_of(config_, Release::kBF16);
  std::erase_if(tensors, [](const TestTensor& t) {
    return t.name.find(".enorm.") != t.name.npos || t.name.find(".hnorm.") != t.name.npos ||
           t.name.find(".eh_proj.") != t.name.npos;
  });
  const Inventory inventory = take(tensors);
  EXPECT_FALSE(inventory.has_mtp);
  EXPECT_TRUE(inventory.missing.empty());
  EXPECT_FALSE(inventory.extra.empty());
}

TEST_F(InventoryTest, a_tied_head_is_not_missing_and_further_mtp_layers_are_known) {
  auto tensors = tensors_of(config_, Release::kBF16);
  std::erase_if(tensors, [](const TestTensor& t) { return t.name == "lm_head.weight"; });
  const std::string one(4, '\0');
  tensors.push_back({"model.layers.3.eh_proj.weight", "F32", "[1]", one});
  config_.num_unused_mtp_layers = 1;
  EXPECT_EQ(take(tensors).missing, std::vector<std::string>{"lm_head"});
  config_.tie_word_embeddings = true;
  const Inventory tied = take(tensors);
  EXPECT_TRUE(tied.missing.empty() && tied.extra.empty() && tied.faults.empty());
  EXPECT_EQ(tied.ignored, std::vector<std::string>{"model.layers.3.eh_proj.weight"});
  // One that is there all the same is the one to use.
  tensors = tensors_of(config_, Release::kBF16);
  tensors.push_back({"lm_head.weight", "F32", str("[", config_.vocab_size, ",1]"),
                     std::string(4 * static_cast<std::size_t>(config_.vocab_size), '\0')});
  const Inventory shipped = take(tensors);
  EXPECT_TRUE(shipped.ignored.empty() && shipped.extra.empty());
  EXPECT_EQ(shipped.faults.size(), 1u);  // its shape
}

TEST_F(InventoryTest, half_precision_is_named_and_stacked_scales_belong_to_their_experts) {
  auto tensors = tensors_of(config_, Release::kBF16);
  std::erase_if(tensors, [](const TestTensor& tensor) {
    return tensor.name.find("layers.1.mlp.experts.") != std::string::npos;
  });
  for (TestTensor& tensor : tensors) {
    if (tensor.name == "lm_head.weight" || tensor.name == "model.norm.weight") tensor.dtype = "F16";
  }
  const std::string p = "model.layers.1.mlp.experts.";
  tensors.push_back({p + "gate_up_proj", "F16", "[2,32,16]", std::string(2048, '\0')});
  tensors.push_back({p + "down_proj", "F8_E4M3", "[2,16,16]", std::string(512, '\0')});
  tensors.push_back({p + "down_proj_scale_inv", "F32", "[2,1,1]", std::string(8, '\0')});
  const Inventory inventory = take(tensors);
  EXPECT_TRUE(inventory.missing.empty() && inventory.extra.empty() && inventory.faults.empty());
  std::map<std::string, std::int64_t> bytes;
  for (const Inventory::Row& row : inventory.rows) {
    bytes[str(name_of(row.role), " ", row.format)] = row.bytes;
  }
  EXPECT_EQ(bytes["routed experts f16"], 2048);
  EXPECT_EQ(bytes["routed experts fp8"], 520);
  EXPECT_EQ(bytes["norms f16"], 32);
  EXPECT_EQ(bytes.count("head f16"), 1u);
}

TEST_F(InventoryTest, fp8_with_a_scale_for_each_row_is_fp8) {
  auto tensors = tensors_of(config_, Release::kBF16);
  for (TestTensor& tensor : tensors) {
    if (tensor.name != "lm_head.weight") continue;
    tensor.dtype = "F8_E4M3";
    tensor.bytes.resize(tensor.bytes.size() / 2);
  }
  const auto rows = static_cast<std::size_t>(config_.vocab_size);
  tensors.push_back(
      {"lm_head.weight_scale", "F32", str("[", rows, ",1]"), std::string(4 * rows, '\0')});
  const Inventory inventory = take(tensors);
  EXPECT_TRUE(inventory.missing.empty() && inventory.extra.empty() && inventory.faults.empty());
  for (const Inventory::Row& row : inventory.rows) {
    if (row.role != TensorRole::kHead) continue;
    EXPECT_EQ(row.format, "fp8");
    EXPECT_EQ(row.bytes, config_.vocab_size * (config_.hidden_size + 4));
  }
}

TEST_F(InventoryTest, stacked_experts_count_as_their_experts) {
  auto tensors = tensors_of(config_, Release::kBF16);
  std::erase_if(tensors, [](const TestTensor& tensor) {
    return tensor.name.find("layers.1.mlp.experts.") != std::string::npos;
  });
  const std::string p = "model.layers.1.mlp.experts.";
  tensors.push_back({p + "gate_up_proj", "BF16", "[2,32,16]", std::string(2048, '\0')});
  tensors.push_back({p + "down_proj", "BF16", "[2,16,16]", std::string(1024, '\0')});
  const Inventory inventory = take(tensors);
  EXPECT_TRUE(inventory.missing.empty() && inventory.extra.empty() && inventory.faults.empty());
  EXPECT_EQ(inventory.bytes, release_bytes(config_, Release::kBF16, true));
}

TEST(ReleaseBytes, equal_the_specification) {
  const ModelConfig config = read_config(GLINT_SOURCE_DIR "/tests/data/configs/glm5.json").value();
  const auto gb = [&](Release release, bool with_mtp) {
    return static_cast<double>(release_bytes(config, release, with_mtp)) / 1e9;
  };
  EXPECT_NEAR(gb(Release::kBF16, false), 1487.8, 0.05);
  EXPECT_NEAR(gb(Release::kBF16, true), 1507.7, 0.05);
  EXPECT_NEAR(gb(Release::kFp8, false), 746.1, 0.05);
  EXPECT_NEAR(gb(Release::kFp8, true), 756.2, 0.05);
  EXPECT_NEAR(gb(Release::kNvfp4, false), 446.0, 0.05);
  EXPECT_NEAR(gb(Release::kNvfp4, true), 452.0 + 13.9, 0.05);  // its MTP layer stays BF16
}

}  // namespace
}  // namespace glint
