#include "checkpoint/checkpoint.h"

#include <sys/mman.h>

#include <cmath>

#include "base/test_dir.h"
#include "checkpoint/memory_source.h"
#include "checkpoint/test_files.h"

namespace glint {
namespace {

std::string bf16_bytes(std::initializer_list<float> values) {
  std::vector<std::uint16_t> words;
  for (const float value : values) words.push_back(to_bf16(value).bits);
  return bytes_of_values(words);
}

std::string f32_bytes(std::vector<float> values) { return bytes_of_values(values); }

class CheckpointTest : public testing::Test {
 protected:
  Checkpoint open(const std::vector<TestTensor>& tensors) {
    dir_.write("model.safetensors", safetensors_file(tensors));
    return Checkpoint::open(dir_.path()).value();
  }
  std::string refusal(const std::vector<TestTensor>& tensors, std::int64_t rows,
                      std::int64_t cols) {
    Checkpoint checkpoint = open(tensors);
    const Result<Weight> weight = checkpoint.weight("x", rows, cols);
    if (weight.ok()) return "accepted";
    const std::string& message = weight.error().message;
    EXPECT_TRUE(message.starts_with(prefix_)) << message;
    return message.substr(prefix_.size());
  }

  const TestDir dir_;
  const std::string prefix_ = dir_ / "model.safetensors" + ": ";
};

TEST_F(CheckpointTest, dense_weights_are_views_unless_they_lie_at_odd_addresses) {
  Checkpoint checkpoint = open({{"a.weight", "BF16", "[1,2]", bf16_bytes({1, -2})},
                                {"odd", "U8", "[1]", "!"},
                                {"b.weight", "F32", "[2,1]", f32_bytes({3, 4})},
                                {"c.weight", "BF16", "[3]", bf16_bytes({5, 6, 7})}});
  const Weight a = checkpoint.weight("a", 1, 2).value();
  EXPECT_EQ(a.format, WeightFormat::kBF16);
  EXPECT_EQ(a.data.data, checkpoint.source().find("a.weight")->bytes.data());
  EXPECT_EQ(row_of(a, 0), (std::vector<float>{1, -2}));
  const Weight b = checkpoint.weight("b", 2, 1).value();
  EXPECT_EQ(b.format, WeightFormat::kF32);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.data.data) % 4, 0u);
  EXPECT_EQ(row_of(b, 1), std::vector<float>{4});
  const Tensor c = checkpoint.vector("c.weight", 3).value();
  EXPECT_EQ(to_float(c.ptr<BF16>()[2]), 7);
  EXPECT_TRUE(checkpoint.has_weight("a"));
  EXPECT_FALSE(checkpoint.has_weight("d"));
}

TEST_F(CheckpointTest, fp8_blocks_take_either_scale_name_in_f32_or_bf16_with_ragged_edges) {
  const std::string codes(130 * 3, '\x38');  // 1.0
  for (const char* name : {"x.weight_scale_inv", "x.weight_scale"}) {
    for (const bool narrow : {false, true}) {
      Checkpoint checkpoint = open({{"x.weight", "F8_E4M3", "[130,3]", codes},
                                    {name, narrow ? "BF16" : "F32", "[2,1]",
                                     narrow ? bf16_bytes({2, 0.5f}) : f32_bytes({2, 0.5f})}});
      const Weight weight = checkpoint.weight("x", 130, 3).value();
      EXPECT_EQ(weight.format, WeightFormat::kFp8Block);
      EXPECT_EQ(row_of(weight, 127), (std::vector<float>{2, 2, 2}));
      EXPECT_EQ(row_of(weight, 128), (std::vector<float>{0.5f, 0.5f, 0.5f}));
    }
  }
}

TEST_F(CheckpointTest, fp8_scales_come_in_other_types_and_shapes_too) {
  const std::string codes(130 * 3, '\x38');  // 1.0
  const auto rows = [&](const TestTensor& scale) {
    Checkpoint checkpoint = open({{"x.weight", "F8_E4M3", "[130,3]", codes}, scale});
    const Weight weight = checkpoint.weight("x", 130, 3).value();
    EXPECT_EQ(weight.format, WeightFormat::kFp8Block);
    EXPECT_EQ(row_of(weight, 0), row_of(weight, 127));
    EXPECT_EQ(row_of(weight, 128), row_of(weight, 129));
    return std::pair(row_of(weight, 127)[2], row_of(weight, 128)[2]);
  };
  const std::pair<float, float> two_and_half = {2, 0.5f}, three_and_three = {3, 3};
  EXPECT_EQ(rows({"x.weight_scale_inv", "F8_E8M0", "[2,1]", "\x80\x7e"}), two_and_half);
  EXPECT_EQ(rows({"x.weight_scale_inv", "F16", "[2,1]", std::string("\0\x40\0\x38", 4)}),
            two_and_half);
  // ModelOpt's: blocks, and one scale for the whole matrix.
  EXPECT_EQ(rows({"x.weight_scale", "F32", "[2,1,1,1]", f32_bytes({2, 0.5f})}), two_and_half);
  EXPECT_EQ(rows({"x.weight_scale", "F32", "[]", f32_bytes({3})}), three_and_three);
  EXPECT_EQ(rows({"x.weight_scale_inv", "BF16", "[1]", bf16_bytes({3})}), three_and_three);
}

TEST_F(CheckpointTest, fp8_with_a_scale_for_each_row_becomes_f32) {
  const std::string codes("\x38\x40\x38\x38\x44\x39", 6);  // 1 2; 1 1; 3 1.125
  for (const char* shape : {"[3,1]", "[3]"}) {
    Checkpoint checkpoint =
        open({{"x.weight", "F8_E4M3", "[3,2]", codes},
              {"x.weight_scale", "F32", shape, f32_bytes({1, 0.1f, 1.0f / 3})}});
    const Weight weight = checkpoint.weight("x", 3, 2).value();
    EXPECT_EQ(weight.format, WeightFormat::kF32);
    EXPECT_EQ(row_of(weight, 0), (std::vector<float>{1, 2}));
    EXPECT_EQ(row_of(weight, 1), (std::vector<float>{0.1f, 0.1f}));
    EXPECT_EQ(row_of(weight, 2), (std::vector<float>{3 * (1.0f / 3), 1.125f * (1.0f / 3)}));
  }
}

// Tensors of any size without their bytes.
class HollowSource final : public TensorSource {
 public:
  explicit HollowSource(std::vector<StoredTensor> tensors) : tensors_(std::move(tensors)) {}
  std::span<const StoredTensor> tensors() const override { return tensors_; }
  const StoredTensor* find(std::string_view name) const override {
    for (const StoredTensor& tensor : tensors_) {
      if (tensor.name == name) return &tensor;
    }
    return nullptr;
  }
  const std::string& file_name(int) const override { return name_; }
  const std::string& name() const override { return name_; }

 private:
  const std::vector<StoredTensor> tensors_;
  const std::string name_ = "hollow";
};

TEST(CheckpointMemory, copies_that_would_not_fit_are_refused_before_they_are_made) {
  constexpr std::int64_t kSide = std::int64_t{1} << 24;
  const auto refusal = [](std::vector<StoredTensor> tensors) {
    const Checkpoint checkpoint(std::make_unique<HollowSource>(std::move(tensors)));
    const Status status = checkpoint.expect_room_for_copies();
    return status.ok() ? "" : status.error().message;
  };
  const auto tensor = [](const char* name, StoredType type, std::vector<std::int64_t> shape) {
    return StoredTensor{.name = name, .type = type, .shape = std::move(shape)};
  };
  const StoredTensor fp8 = tensor("x.weight", StoredType::kF8E4M3, {kSide, kSide});
  const std::string expected =
      "hollow: weights in F16, or in FP8 with a scale for each row, become f32, and those at odd "
      "addresses are copied (saved again in bf16 they are not), which takes 1 PiB, and ";
  const std::string refused = refusal({tensor("x.weight", StoredType::kF16, {kSide, kSide})});
  EXPECT_EQ(refused.substr(0, expected.size()), expected);
  for (const char* name : {"x.weight_scale", "x.weight_scale_inv"}) {
    EXPECT_NE(refusal({fp8, tensor(name, StoredType::kF32, {kSide, 1})}), "");
    EXPECT_EQ(refusal({fp8, tensor(name, StoredType::kF32, {kSide / 128, kSide / 128})}), "");
    EXPECT_EQ(refusal({fp8, tensor(name, StoredType::kF32, {1})}), "");
  }
  EXPECT_EQ(refusal({tensor("x.weight", StoredType::kBF16, {kSide, kSide})}), "");
  alignas(4) static constexpr std::byte kSomewhere[4] = {};
  for (const std::size_t offset : {0, 1, 2}) {  // the bytes are counted, not read
    StoredTensor lying = tensor("x.weight", StoredType::kF32, {kSide, kSide});
    lying.bytes = {kSomewhere + offset, std::size_t{4} * kSide * kSide};
    EXPECT_EQ(refusal({lying}).substr(0, expected.size()), offset ? expected : "") << offset;
  }
}

TEST_F(CheckpointTest, both_nvfp4_layouts_mean_the_same) {
  const std::string codes = "\x52" + std::string(7, '\0');  // 1, 3, 0, ..
  const std::string scale = "\x40";                         // 2
  Checkpoint checkpoint = open({{"m.weight", "U8", "[1,8]", codes},
                                {"m.weight_scale", "F8_E4M3", "[1,1]", scale},
                                {"m.weight_scale_2", "F32", "[]", f32_bytes({0.25f})},
                                {"m.input_scale", "F32", "[]", f32_bytes({1})},
                                {"c.weight_packed", "U8", "[1,8]", codes},
                                {"c.weight_scale", "F8_E4M3", "[1,1]", scale},
                                {"c.weight_global_scale", "F32", "[1]", f32_bytes({4})}});
  for (const char* name : {"m", "c"}) {
    const Weight weight = checkpoint.weight(name, 1, 16).value();
    EXPECT_EQ(weight.format, WeightFormat::kNvfp4);
    EXPECT_EQ(row_of(weight, 0)[0], 0.5f);
    EXPECT_EQ(row_of(weight, 0)[1], 1.5f);
    EXPECT_TRUE(checkpoint.has_weight(name));
  }
}

TEST_F(CheckpointTest, stacked_experts_are_found_under_the_names_of_single_ones) {
  const std::string p = "model.layers.3.mlp.experts.";
  Checkpoint checkpoint = open({{p + "gate_up_proj", "BF16", "[2,2,1]", bf16_bytes({1, 2, 3, 4})},
                                {p + "down_proj", "F32", "[2,1,1]", f32_bytes({5, 6})}});
  EXPECT_EQ(row_of(checkpoint.weight(p + "0.gate_proj", 1, 1).value(), 0)[0], 1);
  EXPECT_EQ(row_of(checkpoint.weight(p + "1.gate_proj", 1, 1).value(), 0)[0], 3);
  EXPECT_EQ(row_of(checkpoint.weight(p + "1.up_proj", 1, 1).value(), 0)[0], 4);
  EXPECT_EQ(row_of(checkpoint.weight(p + "1.down_proj", 1, 1).value(), 0)[0], 6);
  EXPECT_TRUE(checkpoint.has_weight(p + "1.down_proj"));
  EXPECT_EQ(checkpoint.weight(p + "2.up_proj", 1, 1).error().message,
            prefix_ + "tensor \"" + p + "gate_up_proj\" has 2 experts; expected one of number 2");
  EXPECT_EQ(checkpoint.weight(p + "0.up_proj", 2, 1).error().message,
            prefix_ + "tensor \"" + p +
                "gate_up_proj\" is BF16 [2, 2, 1]; expected BF16 or F32 or F16 "
                "[2, 4, 1]");
}

TEST_F(CheckpointTest, stacked_fp8_experts_have_their_blocks_of_the_stacked_scales) {
  const std::string p = "model.layers.3.mlp.experts.", ones(512, '\x38');
  Checkpoint checkpoint =
      open({{p + "gate_up_proj", "F8_E4M3", "[2,256,1]", ones},
            {p + "gate_up_proj_scale_inv", "F32", "[2,2,1]", f32_bytes({1, 2, 3, 4})},
            {p + "down_proj", "F8_E4M3", "[2,1,130]", ones.substr(0, 260)},
            {p + "down_proj_scale_inv", "BF16", "[2,1,2]", bf16_bytes({5, 6, 7, 8})}});
  EXPECT_EQ(row_of(checkpoint.weight(p + "0.gate_proj", 128, 1).value(), 127)[0], 1);
  EXPECT_EQ(row_of(checkpoint.weight(p + "0.up_proj", 128, 1).value(), 0)[0], 2);
  EXPECT_EQ(row_of(checkpoint.weight(p + "1.up_proj", 128, 1).value(), 0)[0], 4);
  EXPECT_EQ(row_of(checkpoint.weight(p + "1.down_proj", 1, 130).value(), 0)[127], 7);
  EXPECT_EQ(row_of(checkpoint.weight(p + "1.down_proj", 1, 130).value(), 0)[128], 8);
}

TEST_F(CheckpointTest, stacked_fp8_experts_that_share_a_block_or_lack_scales_are_refused) {
  const std::string p = "model.layers.3.mlp.experts.", up = p + "0.up_proj";
  Checkpoint shared = open({{p + "gate_up_proj", "F8_E4M3", "[1,2,1]", "\x38\x38"},
                            {p + "gate_up_proj_scale_inv", "F32", "[1,1,1]", f32_bytes({1})}});
  EXPECT_EQ(shared.weight(up, 1, 1).error().message,
            prefix_ + "tensor \"" + p +
                "gate_up_proj\" holds blocks of both gate_proj and up_proj, whose 1 rows are no "
                "multiple of 128; expected one tensor an expert");
  Checkpoint bare = open({{p + "gate_up_proj", "F8_E4M3", "[1,2,1]", "\x38\x38"}});
  EXPECT_EQ(bare.weight(up, 1, 1).error().message,
            prefix_ + "tensor \"" + p + "gate_up_proj_scale_inv\" is missing; the model needs it");
}

TEST_F(CheckpointTest, half_precision_becomes_f32_exactly) {
  // 1, -2, the largest, the smallest subnormal, infinity, and a stack of 1 and 2.
  const auto halves = [](std::vector<std::uint16_t> words) { return bytes_of_values(words); };
  const std::string p = "model.layers.3.mlp.experts.";
  Checkpoint checkpoint =
      open({{"odd", "U8", "[1]", "!"},
            {"a.weight", "F16", "[1,5]", halves({0x3c00, 0xc000, 0x7bff, 1, 0x7c00})},
            {"b", "F16", "[2]", halves({0x3c00, 0x8000})},
            {p + "down_proj", "F16", "[2,1,1]", halves({0x3c00, 0x4000})}});
  const Weight a = checkpoint.weight("a", 1, 5).value();
  EXPECT_EQ(a.format, WeightFormat::kF32);
  EXPECT_EQ(row_of(a, 0), (std::vector<float>{1, -2, 65504, 0x1p-24f, INFINITY}));
  const Tensor b = checkpoint.vector("b", 2).value();
  EXPECT_EQ(b.ptr<float>()[0], 1);
  EXPECT_TRUE(std::signbit(b.ptr<float>()[1]));
  EXPECT_EQ(row_of(checkpoint.weight(p + "1.down_proj", 1, 1).value(), 0)[0], 2);
}

// Memory that ends the program if it is read.
struct ForbiddenMemory {
  ~ForbiddenMemory() { munmap(data, kBytes); }
  std::span<const std::byte> take(std::size_t bytes) {
    return {static_cast<const std::byte*>(data) + 1, bytes};
  }
  static constexpr std::size_t kBytes = 4096;
  void* data = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
};

TEST(Checkpoint, tells_formats_without_reading_the_weights) {
  ForbiddenMemory memory;
  const auto stored = [&](const char* name, StoredType type, std::vector<std::int64_t> shape) {
    StoredTensor tensor = {.name = name, .type = type, .shape = std::move(shape)};
    tensor.bytes = memory.take(static_cast<std::size_t>(tensor.size() * bits_of(type) / 8));
    return tensor;
  };
  Checkpoint checkpoint(std::make_shared<MemorySource>(
      "m", std::vector<StoredTensor>{
               stored("half.weight", StoredType::kF16, {4, 8}),
               stored("odd.weight", StoredType::kBF16, {4, 8}),
               stored("rows.weight", StoredType::kF8E4M3, {4, 8}),
               stored("rows.weight_scale", StoredType::kBF16, {4, 1}),
               stored("p.mlp.experts.gate_up_proj", StoredType::kF16, {2, 8, 8})}));
  EXPECT_EQ(checkpoint.format("half", 4, 8).value(), WeightFormat::kF32);
  EXPECT_EQ(checkpoint.format("odd", 4, 8).value(), WeightFormat::kBF16);
  EXPECT_EQ(checkpoint.format("rows", 4, 8).value(), WeightFormat::kF32);
  EXPECT_EQ(checkpoint.format("p.mlp.experts.1.up_proj", 4, 8).value(), WeightFormat::kF32);
  EXPECT_EQ(checkpoint.format("half", 4, 9).error().message,
            "m: tensor \"half.weight\" is F16 [4, 8]; expected BF16 or F32 or F16 [4, 9]");
}

TEST_F(CheckpointTest, a_vector_can_be_had_as_f32_whatever_it_is_stored_as) {
  Checkpoint checkpoint =
      open({{"a", "BF16", "[2]", bf16_bytes({1, -3})}, {"b", "F32", "[1]", f32_bytes({0.1f})}});
  const Tensor a = checkpoint.vector_f32("a", 2).value();
  EXPECT_EQ(a.dtype, DType::kF32);
  EXPECT_EQ(a.ptr<float>()[1], -3);
  EXPECT_EQ(checkpoint.vector_f32("b", 1).value().ptr<float>()[0], 0.1f);
}

TEST_F(CheckpointTest, what_does_not_fit_is_refused_with_file_tensor_and_expectation) {
  const std::string one = "\x38";
  EXPECT_EQ(refusal({{"y", "U8", "[1]", one}}, 1, 1),
            "tensor \"x.weight\" is missing; the model needs it");
  EXPECT_EQ(
      refusal({{"x.qweight", "I32", "[1,1]", f32_bytes({1})}}, 1, 8),
      "tensor \"x.qweight\" is packed as AWQ or GPTQ; expected a weight in BF16, F32, F16, FP8 "
      "(F8_E4M3) or NVFP4 (U8)");
  EXPECT_EQ(refusal({{"x.pre_quant_scale", "BF16", "[1]", bf16_bytes({1})}}, 1, 1),
            "tensor \"x.pre_quant_scale\" scales inputs, which is not supported; take a checkpoint "
            "without (no AWQ)");
  EXPECT_EQ(refusal({{"x.weight", "BF16", "[1]", bf16_bytes({1})}}, 1, 1),
            "tensor \"x.weight\" is BF16 [1]; expected BF16 or F32 or F16 [1, 1]");
  for (const char* name : {"x.weight", "x.weight_packed"}) {
    EXPECT_EQ(refusal({{name, "I32", "[1,1]", f32_bytes({1})}}, 1, 8),
              str("tensor \"", name, "\" is I32 [1, 1]; expected a weight in BF16, F32, F16, FP8 ",
                  "(F8_E4M3) or NVFP4 (U8)"));
  }
  EXPECT_EQ(refusal({{"x.weight", "BF16", "[1,1]", bf16_bytes({1})},
                     {"x.weight_scale_inv", "F32", "[1,1]", f32_bytes({1})}},
                    1, 1),
            "tensor \"x.weight\" is BF16 and yet has a weight_scale_inv; expected F8_E4M3 or U8 "
            "beside it");
  EXPECT_EQ(refusal({{"x.weight", "F8_E4M3", "[1,1]", one}}, 1, 1),
            "tensor \"x.weight\" is F8_E4M3, but its weight_scale_inv is missing");
  EXPECT_EQ(
      refusal({{"x.weight", "F8_E4M3", "[1,1]", one},
               {"x.weight_scale", "F32", "[1,2]", f32_bytes({1, 1})}},
              1, 1),
      "tensor \"x.weight_scale\" is F32 [1, 2]; expected F32 or BF16 or F16 or F8_E8M0 [1, 1]");
  EXPECT_EQ(refusal({{"x.weight", "F8_E4M3", "[1,1]", one},
                     {"x.weight_scale", "I32", "[]", f32_bytes({1})}},
                    1, 1),
            "tensor \"x.weight_scale\" is I32 []; expected F32 or BF16 or F16 or F8_E8M0 []");
  EXPECT_EQ(refusal({{"x.weight", "F8_E4M3", "[1,1]", one},
                     {"x.weight_scale", "F32", "[1,1]", f32_bytes({1})},
                     {"x.weight_scale_inv", "F32", "[1,1]", f32_bytes({1})}},
                    1, 1),
            "tensor \"x.weight\" has both a weight_scale_inv and a weight_scale; expected one");
}

TEST_F(CheckpointTest, impossible_nvfp4_is_refused) {
  const std::string codes(8, '\0'), one = "\x38";
  const auto with_global = [&](float global) {
    return refusal({{"x.weight", "U8", "[1,8]", codes},
                    {"x.weight_scale", "F8_E4M3", "[1,1]", one},
                    {"x.weight_scale_2", "F32", "[1]", f32_bytes({global})}},
                   1, 16);
  };
  EXPECT_EQ(with_global(0.5f), "accepted");
  EXPECT_EQ(with_global(0), "tensor \"x.weight_scale_2\" is 0; expected a positive number");
  EXPECT_EQ(with_global(NAN), "tensor \"x.weight_scale_2\" is nan; expected a positive number");
  EXPECT_EQ(with_global(-1), "tensor \"x.weight_scale_2\" is -1; expected a positive number");
  EXPECT_EQ(
      refusal({{"x.weight", "U8", "[1,8]", codes}}, 1, 8),
      "tensor \"x.weight\" is packed, but its 8 inputs are no multiple of 16; expected groups "
      "of 16");
  EXPECT_EQ(refusal({{"x.weight", "U8", "[1,8]", codes}}, 1, 16),
            "tensor \"x.weight_scale\" is missing; the model needs it");
  EXPECT_EQ(refusal({{"x.weight_packed", "U8", "[1,8]", codes},
                     {"x.weight_scale", "F8_E4M3", "[1,2]", one + one}},
                    1, 16),
            "tensor \"x.weight_scale\" is F8_E4M3 [1, 2]; expected F8_E4M3 [1, 1]");
  const auto with_divisor = [&](float divisor) {
    return refusal({{"x.weight_packed", "U8", "[1,8]", codes},
                    {"x.weight_scale", "F8_E4M3", "[1,1]", one},
                    {"x.weight_global_scale", "F32", "[1]", f32_bytes({divisor})}},
                   1, 16);
  };
  EXPECT_EQ(with_divisor(0), "tensor \"x.weight_global_scale\" is 0; expected a positive number");
  EXPECT_NE(with_divisor(0x1p-140f), "accepted");  // its inverse is infinite
}

TEST_F(CheckpointTest, the_bundled_model_opens) {
  Checkpoint checkpoint = Checkpoint::open(GLINT_SOURCE_DIR "/models/glm5-tiny").value();
  EXPECT_EQ(checkpoint.weight("model.embed_tokens", 3712, 256).value().format, WeightFormat::kBF16);
  EXPECT_EQ(checkpoint.vector("model.norm.weight", 256).value().dim(0), 256);
}

}  // namespace
}  // namespace glint
