#include "eval/input_ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/str.h"

namespace glint {
namespace {

template <class T>
std::vector<T> cast(std::initializer_list<float> values) {
  std::vector<T> out;
  for (const float value : values) out.push_back(from_float<T>(value));
  return out;
}

TEST(RowMaxima, are_of_magnitudes_in_either_type) {
  const std::unique_ptr<Device> host = make_host_device();
  auto f32 = cast<float>({1, -3, 2, -0.0f, 0, 0, 1e-40f, -2e-40f, 0});
  EXPECT_EQ(row_maxima(Tensor(f32.data(), DType::kF32, {3, 3}), *host),
            (std::vector<float>{3, 0, 2e-40f}));
  auto half = cast<BF16>({1, -3, 2, -0.5f, 0.25f, 0});
  EXPECT_EQ(row_maxima(Tensor(half.data(), DType::kBF16, {2, 3}), *host),
            (std::vector<float>{3, 0.5f}));
}

TEST(RowMaxima, of_slices_see_the_slice_alone) {
  const std::unique_ptr<Device> host = make_host_device();
  auto values = cast<float>({9, 1, 2, 9, 9, 4, 3, 9});
  const Tensor whole(values.data(), DType::kF32, {2, 4});
  EXPECT_EQ(row_maxima(whole.slice(1, 1, 2), *host), (std::vector<float>{2, 4}));
}

TEST(RowMaxima, nan_and_infinity_are_infinite) {
  const std::unique_ptr<Device> host = make_host_device();
  auto values = cast<BF16>({1, NAN, -INFINITY, 2, 3, 4});
  const std::vector<float> maxima = row_maxima(Tensor(values.data(), DType::kBF16, {3, 2}), *host);
  EXPECT_EQ(maxima, (std::vector<float>{INFINITY, INFINITY, 4}));
}

// A model without its MTP layer, of which only the ids of its weights count.
struct Fixture {
  Fixture() {
    const ModelConfig config =
        read_config(GLINT_SOURCE_DIR "/models/glm5-tiny/config.json").value();
    weights.tensors = model_tensors(config);
    for (const ModelTensor& tensor : weights.tensors) {
      weights.is_held.push_back(tensor.layer < config.num_hidden_layers);
    }
    weights.layers.resize(static_cast<std::size_t>(config.num_hidden_layers));
  }
  Weight weight(const std::string& name) {
    Weight weight = {.format = WeightFormat::kF32,
                     .rows = 1,
                     .cols = 4,
                     .data = Tensor(bytes, DType::kF32, {1, 4})};
    const auto found = std::find_if(weights.tensors.begin(), weights.tensors.end(),
                                    [&](const ModelTensor& tensor) { return tensor.name == name; });
    weight.id = static_cast<int>(found - weights.tensors.begin());
    return weight;
  }

  float bytes[4] = {};
  ModelWeights weights;
  std::unique_ptr<Device> host = make_host_device();
};

TEST(InputRanges, linear_layers_keep_the_largest_input_and_count_rows) {
  Fixture f;
  InputRanges ranges(f.weights);
  const InputTaps taps = ranges.taps(*f.host);
  const Weight q_a = f.weight("model.layers.0.self_attn.q_a_proj");
  float x[] = {1, -5, 0, 0, 2, 2, 2, 2};
  taps.linear({.x = Tensor(x, DType::kF32, {2, 4}), .weight = q_a});
  taps.linear({.x = Tensor(x + 4, DType::kF32, {1, 4}), .weight = q_a});
  // The router is not quantised, and a product may have nothing to do with the model.
  taps.linear({.x = Tensor(x, DType::kF32, {2, 4}), .weight = f.weight("model.layers.1.mlp.gate")});
  taps.linear({.x = Tensor(x, DType::kF32, {2, 4}), .weight = {}});
  AttentionWeights attention;
  attention.w_uk = stack_of(f.weight("model.layers.0.self_attn.kv_b_proj"), 1, 16);
  taps.latent(attention, Tensor(x + 4, DType::kF32, {1, 4}));
  const ActivationRanges seen = ranges.ranges();
  EXPECT_EQ(seen.at("model.layers.0.self_attn.q_a_proj"), (ActivationRange{5, 3}));
  EXPECT_EQ(seen.at("model.layers.0.self_attn.kv_b_proj"), (ActivationRange{2, 1}));
  EXPECT_EQ(seen.at("model.layers.1.mlp.experts.0.gate_proj"), (ActivationRange{0, 0}));
  EXPECT_FALSE(seen.contains("model.layers.1.mlp.gate"));
  EXPECT_FALSE(seen.contains("model.layers.5.self_attn.q_a_proj"));  // of the MTP layer
}

TEST(InputRanges, experts_see_the_rows_that_are_theirs) {
  Fixture f;
  InputRanges ranges(f.weights);
  const InputTaps taps = ranges.taps(*f.host);
  float x[] = {1, 1, 1, 1, 0, -7, 0, 0, 3, 3, 3, 3};
  std::int32_t rows[] = {0, 2, 1}, offsets[] = {0, 2, 3};
  const WeightStack experts = stack_of(f.weight("model.layers.2.mlp.experts.*.up_proj"), 2, 16);
  const auto of_expert = [&](int e) {
    return ranges.ranges().at(str("model.layers.2.mlp.experts.", e, ".up_proj"));
  };
  taps.grouped_linear({.x = Tensor(x, DType::kF32, {3, 4}),
                       .rows = Tensor(rows, DType::kI32, {3}),
                       .offsets = Tensor(offsets, DType::kI32, {3}),
                       .weights = experts});
  EXPECT_EQ(of_expert(0), (ActivationRange{3, 2}));
  EXPECT_EQ(of_expert(1), (ActivationRange{7, 1}));
  // Without `rows` row r is itself.
  std::int32_t all_of_the_last[] = {0, 0, 3};
  taps.grouped_linear({.x = Tensor(x, DType::kF32, {3, 4}),
                       .offsets = Tensor(all_of_the_last, DType::kI32, {3}),
                       .weights = experts});
  EXPECT_EQ(of_expert(0).tokens, 2);
  EXPECT_EQ(of_expert(1), (ActivationRange{7, 4}));
}

TEST(InputRanges, an_input_that_is_not_finite_is_named) {
  Fixture f;
  InputRanges ranges(f.weights);
  EXPECT_TRUE(ranges.check_finite().ok());
  float x[] = {1, NAN, 0, 0};
  ranges.taps(*f.host).linear({.x = Tensor(x, DType::kF32, {1, 4}),
                               .weight = f.weight("model.layers.0.self_attn.q_a_proj")});
  ASSERT_FALSE(ranges.check_finite().ok());
  EXPECT_NE(ranges.check_finite().error().message.find("model.layers.0.self_attn.q_a_proj"),
            std::string::npos);
}

}  // namespace
}  // namespace glint
