#include "model/synthetic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/file.h"
#include "base/test_dir.h"
#include "base/thread_pool.h"
#include "checkpoint/test_files.h"
#include "model/test_config.h"
#include "model/weight_sampler.h"

namespace glint {
namespace {

// A small model with every kind of layer and ragged dims: dense, sparse without indexer, MTP.
Json small_json() {
  return glm5_with(R"({
    "vocab_size": 300, "eos_token_id": 7, "hidden_size": 144, "intermediate_size": 208, "moe_intermediate_size": 48,
    "num_hidden_layers": 3, "first_k_dense_replace": 1, "index_topk_pattern": "FFS",
    "num_attention_heads": 2, "q_lora_rank": 80, "kv_lora_rank": 32, "qk_nope_head_dim": 24,
    "qk_rope_head_dim": 16, "qk_head_dim": 40, "v_head_dim": 32, "n_routed_experts": 4,
    "num_experts_per_tok": 2, "index_n_heads": 2, "index_head_dim": 32, "index_topk": 64,
    "quantization_config": {"quant_method": "another"}})");
}

Checkpoint dummy(Release release, std::uint64_t seed = 1, int threads = 2) {
  ThreadPool pool(threads);
  const ModelConfig config = parse_config(small_json()).value();
  const SyntheticModel model = SyntheticModel::plan(config, release, seed).value();
  std::atomic<std::int64_t> bytes = 0;
  Result<Checkpoint> checkpoint = make_dummy_checkpoint(model, pool, [&](std::int64_t done) {
    bytes += done;
    return true;
  });
  EXPECT_EQ(bytes, model.bytes());
  return std::move(checkpoint).value();
}

bool same_bytes(const TensorSource& a, const TensorSource& b) {
  if (a.tensors().size() != b.tensors().size()) return false;
  for (const StoredTensor& tensor : a.tensors()) {
    const StoredTensor* other = b.find(tensor.name);
    if (!other || other->bytes.size() != tensor.bytes.size()) return false;
    if (std::memcmp(tensor.bytes.data(), other->bytes.data(), tensor.bytes.size())) return false;
  }
  return true;
}

TEST(Synthetic, every_release_has_all_tensors_of_the_config_in_its_formats) {
  const ModelConfig config = parse_config(small_json()).value();
  for (const Release release : {Release::kBF16, Release::kFp8, Release::kNvfp4}) {
    Checkpoint checkpoint = dummy(release);
    for (const ModelTensor& tensor : model_tensors(config)) {
      for (int expert = 0; expert < tensor.num_copies(); ++expert) {
        const std::string name = tensor.name_of_copy(expert);
        if (!tensor.is_matrix()) {
          EXPECT_TRUE(checkpoint.vector(name, tensor.cols).ok()) << name;
          continue;
        }
        const Result<Weight> weight = checkpoint.weight(name, tensor.rows, tensor.cols);
        ASSERT_TRUE(weight.ok()) << weight.error().message;
        EXPECT_EQ(weight.value().format, format_in(release, tensor, config)) << name;
      }
    }
  }
}

TEST(Synthetic, releases_quantise_what_the_published_ones_do) {
  Checkpoint fp8 = dummy(Release::kFp8), nvfp4 = dummy(Release::kNvfp4);
  const auto type = [](Checkpoint& checkpoint, const std::string& name) {
    return std::string(name_of(checkpoint.source().find("model.layers." + name)->type));
  };
  EXPECT_EQ(type(fp8, "0.self_attn.kv_a_proj_with_mqa.weight"), "F8_E4M3");
  EXPECT_EQ(type(fp8, "0.self_attn.indexer.wk.weight"), "F8_E4M3");
  EXPECT_EQ(type(fp8, "0.self_attn.indexer.weights_proj.weight"), "BF16");
  EXPECT_EQ(type(fp8, "3.mlp.experts.3.down_proj.weight"), "F8_E4M3");
  EXPECT_EQ(type(fp8, "3.eh_proj.weight"), "BF16");
  EXPECT_EQ(type(fp8, "1.mlp.gate.weight"), "BF16");
  EXPECT_EQ(type(fp8, "1.mlp.gate.e_score_correction_bias"), "F32");
  EXPECT_EQ(type(nvfp4, "1.mlp.experts.0.up_proj.weight"), "U8");
  EXPECT_EQ(type(nvfp4, "1.mlp.shared_experts.up_proj.weight"), "BF16");
  EXPECT_EQ(type(nvfp4, "3.mlp.experts.0.up_proj.weight"), "BF16");
  EXPECT_EQ(fp8.source().find("model.layers.2.self_attn.indexer.wk.weight"), nullptr);
}

TEST(Synthetic, bytes_depend_on_the_seed_and_not_on_threads) {
  const Checkpoint one = dummy(Release::kNvfp4, 7, 1), three = dummy(Release::kNvfp4, 7, 3);
  EXPECT_TRUE(same_bytes(one.source(), three.source()));
  EXPECT_FALSE(same_bytes(one.source(), dummy(Release::kNvfp4, 8).source()));
}

TEST(Synthetic, quantised_releases_are_the_bf16_one_within_their_precision) {
  Checkpoint bf16 = dummy(Release::kBF16), fp8 = dummy(Release::kFp8),
             nvfp4 = dummy(Release::kNvfp4);
  const std::string name = "model.layers.1.mlp.experts.2.gate_proj";
  const auto exact = row_of(bf16.weight(name, 48, 144).value(), 47);
  const auto eight = row_of(fp8.weight(name, 48, 144).value(), 47);
  const auto four = row_of(nvfp4.weight(name, 48, 144).value(), 47);
  double norm = 0, error8 = 0, error4 = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    norm += exact[i] * exact[i];
    error8 += std::pow(eight[i] - exact[i], 2);
    error4 += std::pow(four[i] - exact[i], 2);
  }
  EXPECT_NEAR(std::sqrt(norm / 144), 1 / std::sqrt(144.0), 0.03);
  EXPECT_LT(std::sqrt(error8 / norm), 0.05);
  EXPECT_LT(std::sqrt(error4 / norm), 0.2);
  EXPECT_GT(error4, error8);
}

TEST(Synthetic, a_written_checkpoint_is_the_one_in_memory) {
  const TestDir dir;
  ThreadPool pool(2);
  const ModelConfig config = parse_config(small_json()).value();
  const SyntheticModel model = SyntheticModel::plan(config, Release::kNvfp4, 1).value();
  ASSERT_TRUE(write_synthetic_checkpoint(model, small_json(), dir / "out", pool, {}).ok());
  Checkpoint checkpoint = Checkpoint::open(dir / "out").value();
  EXPECT_TRUE(same_bytes(checkpoint.source(), dummy(Release::kNvfp4).source()));
  EXPECT_EQ(read_config(dir / "out/config.json").value().quantization, "modelopt NVFP4");
  EXPECT_TRUE(file_exists(dir / "out/hf_quant_config.json"));
  EXPECT_EQ(
      read_generation_config(dir / "out/generation_config.json", 1 << 20).value().eos_token_ids,
      config.eos_token_ids);
}

TEST(Synthetic, what_a_format_cannot_hold_is_refused) {
  Json json = small_json();
  json.set("moe_intermediate_size", 40);
  const ModelConfig config = parse_config(json).value();
  EXPECT_TRUE(SyntheticModel::plan(config, Release::kFp8, 1).ok());
  EXPECT_EQ(SyntheticModel::plan(config, Release::kNvfp4, 1).error().message,
            "model.layers.1.mlp.experts.*.down_proj has 40 inputs, no multiple of 16, as groups of "
            "nvfp4 need");
  json.set("first_k_dense_replace", 3);
  EXPECT_EQ(SyntheticModel::plan(parse_config(json).value(), Release::kNvfp4, 1).error().message,
            "no layer has routed experts, and nvfp4 is the format of those alone");
  json.set("first_k_dense_replace", 1);
  json.set("num_hidden_layers", 1000);
  json.set("n_routed_experts", 4096);
  json.set("index_topk_pattern", nullptr);
  EXPECT_EQ(SyntheticModel::plan(parse_config(json).value(), Release::kBF16, 1).error().message,
            "the model has 12307024 tensors; expected at most 4000000");
}

TEST(Synthetic, weights_that_memory_cannot_hold_are_refused) {
  const ModelConfig config = read_config(GLINT_SOURCE_DIR "/tests/data/configs/glm5.json").value();
  const SyntheticModel model = SyntheticModel::plan(config, Release::kBF16, 1).value();
  ThreadPool pool(1);
  const std::string message = make_dummy_checkpoint(model, pool, {}).error().message;
  EXPECT_TRUE(message.starts_with("the synthetic weights need 1.371 TiB of memory, but only "))
      << message;
}

TEST(Synthetic, a_failing_write_ends_it) {
  ThreadPool pool(2);
  const ModelConfig config = parse_config(small_json()).value();
  const SyntheticModel model = SyntheticModel::plan(config, Release::kBF16, 1).value();
  const Status status = model.generate(
      pool,
      [](std::size_t, std::int64_t, std::span<const std::byte>) -> Status { return invalid("no"); },
      {});
  EXPECT_EQ(status.error().message, "no");
}

TEST(WeightSampler, draws_have_the_promised_moments_and_outliers) {
  const WeightSampler sampler;
  std::vector<float> draws(1 << 20);
  sampler.fill({.seed = 1, .stream = 2, .count = 1 << 20}, draws.data());
  double sum = 0, squares = 0, largest = 0;
  for (const float draw : draws) {
    sum += draw;
    squares += static_cast<double>(draw) * draw;
    largest = std::max(largest, std::fabs(static_cast<double>(draw)));
  }
  EXPECT_NEAR(sum / (1 << 20), 0, 0.005);
  EXPECT_NEAR(squares / (1 << 20), 1, 0.01);
  EXPECT_GT(largest, 9);
  EXPECT_LT(largest, 12);
}

TEST(WeightSampler, any_part_can_be_drawn_alone) {
  const WeightSampler sampler;
  std::vector<float> whole(100), part(13);
  sampler.fill({.seed = 1, .stream = 2, .count = 100, .mean = 1, .deviation = 2}, whole.data());
  sampler.fill({.seed = 1, .stream = 2, .begin = 21, .count = 13, .mean = 1, .deviation = 2},
               part.data());
  for (std::size_t i = 0; i < part.size(); ++i) EXPECT_EQ(part[i], whole[21 + i]);
}

}  // namespace
}  // namespace glint
