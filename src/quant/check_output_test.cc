#include "quant/check_output.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>

#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "base/test_dir.h"
#include "base/thread_pool.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shard.h"
#include "checkpoint/test_files.h"
#include "quant/convert.h"
#include "quant/testing.h"

namespace glint {
namespace {

namespace fs = std::filesystem;

const std::string kExpert = "model.layers.1.mlp.experts.0.";

// A good checkpoint, to be damaged.
class CheckOutputTest : public testing::Test {
 protected:
  void make(const Recipe& recipe, std::int64_t max_shard_bytes = std::int64_t{1} << 30) {
    fs::remove_all(dir_ / "out");
    Conversion conversion = Conversion::prepare({.source = source_,
                                                 .out = dir_ / "out",
                                                 .recipe = recipe,
                                                 .max_shard_bytes = max_shard_bytes})
                                .value();
    ASSERT_TRUE(conversion.run(pool_, {}).ok());
    fs::remove(dir_ / "out/glint_quantize.json");  // its hashes would tell every time
  }
  std::vector<std::string> faults(bool with_source = false) {
    return check_output({dir_ / "out", with_source ? source_ : ""}, pool_, {}).value().faults;
  }
  void expect_fault(const std::string& words, bool with_source = false) {
    const std::vector<std::string> found = faults(with_source);
    ASSERT_FALSE(found.empty()) << "expected: " << words;
    EXPECT_NE(found[0].find(words), std::string::npos) << found[0];
  }
  // Calls fn(bytes) with those of a tensor of the only file.
  void edit(const std::string& tensor, const std::function<void(char*)>& fn,
            const std::string& folder = "out") {
    const std::string path = dir_ / (folder + "/model.safetensors");
    std::string file = read_file(path).value();
    bool found = false;
    const auto tensors = parse_safetensors(std::as_bytes(std::span(file))).value();
    for (const StoredTensor& stored : tensors) {
      if (stored.name != tensor) continue;
      fn(file.data() + (reinterpret_cast<const char*>(stored.bytes.data()) - file.data()));
      found = true;
    }
    ASSERT_TRUE(found) << tensor;
    ASSERT_TRUE(write_file_atomic(path, file).ok());
  }
  // Writes the only file again, with what fn(tensors) makes of them.
  void rewrite(const std::function<void(std::vector<TestTensor>&)>& fn) {
    const std::string file = read_file(dir_ / "out/model.safetensors").value();
    const auto stored_tensors = parse_safetensors(std::as_bytes(std::span(file))).value();
    std::vector<TestTensor> tensors;
    for (const StoredTensor& stored : stored_tensors) {
      tensors.push_back(
          {stored.name, name_of(stored.type), describe_shape(stored.shape),
           std::string(reinterpret_cast<const char*>(stored.bytes.data()), stored.bytes.size())});
    }
    fn(tensors);
    dir_.write("out/model.safetensors", safetensors_file(tensors));
  }
  void edit_json(const std::string& name, const std::function<void(Json&)>& fn) {
    Json json = read_json_file(dir_ / ("out/" + name)).value();
    fn(json);
    dir_.write("out/" + name, dump_json(json));
  }
  static void set_float(char* bytes, float value) { std::memcpy(bytes, &value, sizeof value); }

  const TestDir dir_;
  const std::string source_ = make_small_model(dir_);
  ThreadPool pool_{2};
};

const Recipe kFp8 = {
    .format = TargetFormat::kFp8, .scope = Scope::kAllLinear, .mtp = MtpChoice::kConvert};

TEST_F(CheckOutputTest, scales_that_differ_or_are_no_positive_numbers) {
  make({});
  EXPECT_TRUE(faults(true).empty());
  edit(kExpert + "up_proj.weight_scale_2", [](char* bytes) { set_float(bytes, 1); });
  expect_fault(kExpert + "gate_proj.weight_scale_2 differs from that of the matrix");
  make({});
  edit(kExpert + "up_proj.input_scale", [](char* bytes) { set_float(bytes, 3); });
  expect_fault(kExpert + "gate_proj.input_scale differs");
  make({});
  edit(kExpert + "down_proj.input_scale", [](char* bytes) { set_float(bytes, 0); });
  expect_fault(kExpert + "down_proj.input_scale is not a positive number");
}

TEST_F(CheckOutputTest, scales_with_a_sign) {
  make({});
  edit(kExpert + "down_proj.weight_scale", [](char* bytes) { bytes[5] |= '\x80'; });
  expect_fault(kExpert + "down_proj.weight_scale holds a negative scale");
  make(kFp8);
  edit(kExpert + "down_proj.weight_scale_inv", [](char* bytes) { bytes[3] |= '\x80'; });
  expect_fault(kExpert + "down_proj.weight_scale_inv holds a negative scale");
}

TEST(SyntheticOutput, of_every_release_has_no_fault) {
  ThreadPool pool(2);
  for (const Release release : {Release::kBF16, Release::kFp8, Release::kNvfp4}) {
    const TestDir dir;
    const OutputCheck check = check_output({make_small_model(dir, release), ""}, pool, {}).value();
    EXPECT_EQ(check.faults, std::vector<std::string>{}) << name_of(release);
  }
}

TEST(CheckOutput, fp8_scales_of_compressed_tensors_have_its_name) {
  ThreadPool pool(2);
  const OutputCheck check =
      check_output({GLINT_SOURCE_DIR "/tests/golden/nvfp4_ct_mixed", ""}, pool, {}).value();
  EXPECT_EQ(check.unchecked.size(), 1u);
  for (const std::string& fault : check.faults) {
    EXPECT_EQ(fault.find("weight_scale"), std::string::npos) << fault;
  }
}

TEST_F(CheckOutputTest, input_scales_are_for_layers_whose_inputs_are_rounded) {
  for (const Nvfp4Layout layout : {Nvfp4Layout::kModelOpt, Nvfp4Layout::kCompressedTensors}) {
    make({.layout = layout});
    rewrite([](std::vector<TestTensor>& tensors) {
      std::erase_if(tensors, [](const TestTensor& tensor) {
        return tensor.name.ends_with(".input_scale") || tensor.name.ends_with("input_global_scale");
      });
    });
    expect_fault(layout == Nvfp4Layout::kModelOpt ? ".input_scale is missing"
                                                  : ".input_global_scale is missing");
    edit_json("config.json", [](Json& json) {
      Json* groups = json.find("quantization_config")->find("config_groups");
      groups->find("group_0")->set("input_activations", nullptr);
    });
    EXPECT_EQ(faults(), std::vector<std::string>{});
  }
}

// One FP8 scale for each row, or for the matrix, in place of one for each block.
void take_other_scales(std::vector<TestTensor>& tensors, bool for_each_row) {
  constexpr std::string_view kSuffix = "_inv";
  std::string rows;
  for (TestTensor& tensor : tensors) {
    if (tensor.dtype == "F8_E4M3") rows = tensor.shape.substr(1, tensor.shape.find(',') - 1);
    if (!tensor.name.ends_with(kSuffix)) continue;
    tensor.name.resize(tensor.name.size() - kSuffix.size());
    tensor.shape = for_each_row ? str("[", rows, ", 1]") : "[]";
    const auto count = for_each_row ? static_cast<std::size_t>(std::stoi(rows)) : 1;
    tensor.bytes = bytes_of_values(std::vector<float>(count, 0.01f));
  }
}

TEST_F(CheckOutputTest, fp8_with_a_scale_for_each_row_is_quantised) {
  make(kFp8);
  rewrite([](std::vector<TestTensor>& tensors) { take_other_scales(tensors, true); });
  edit_json("config.json", [](Json& json) {
    const Json ignore = *json.find("quantization_config")->find("modules_to_not_convert");
    json.set("quantization_config",
             Json::Object{
                 {"quant_method", "compressed-tensors"},
                 {"config_groups",
                  Json::Object{{"group_0", Json::Object{{"weights", Json::Object{{"num_bits", 8}}},
                                                        {"targets", Json::Array{"Linear"}}}}}},
                 {"ignore", ignore}});
  });
  EXPECT_EQ(faults(), std::vector<std::string>{});
  // Beside a source the error is that of FP8, not of a copy.
  ASSERT_TRUE(
      Conversion::prepare(
          {.source = dir_ / "out", .out = dir_ / "wide", .recipe = {.format = TargetFormat::kBf16}})
          .value()
          .run(pool_, {})
          .ok());
  const OutputCheck check = check_output({dir_ / "out", dir_ / "wide"}, pool_, {}).value();
  EXPECT_EQ(check.faults, std::vector<std::string>{});
}

TEST_F(CheckOutputTest, fp8_with_a_scale_for_each_matrix_as_modelopt_and_fp8_describe_it) {
  make(kFp8);
  rewrite([](std::vector<TestTensor>& tensors) { take_other_scales(tensors, false); });
  expect_fault(".weight_scale_inv is missing");
  Json excludes;
  edit_json("config.json", [&](Json& json) {
    excludes = *json.find("quantization_config")->find("modules_to_not_convert");
    json.set("quantization_config", Json::Object{{"quant_method", "fp8"},
                                                 {"activation_scheme", "static"},
                                                 {"weight_block_size", nullptr},
                                                 {"ignored_layers", excludes}});
  });
  EXPECT_EQ(faults(),
            std::vector<std::string>{
                "config.json: quantization_config.activation_scheme is \"static\", but no "
                "weight has an input_scale; expected dynamic"});
  edit_json("config.json", [](Json& json) {
    json.find("quantization_config")->set("activation_scheme", "dynamic");
  });
  EXPECT_EQ(faults(), std::vector<std::string>{});
  edit_json("config.json", [&](Json& json) {
    json.set(
        "quantization_config",
        Json::Object{{"quant_method", "modelopt"}, {"quant_algo", "FP8"}, {"ignore", excludes}});
  });
  dir_.write(
      "out/hf_quant_config.json",
      dump_json(Json::Object{{"quantization", Json::Object{{"quant_algo", "FP8"},
                                                           {"kv_cache_quant_algo", nullptr},
                                                           {"exclude_modules", excludes}}}}));
  EXPECT_EQ(faults(), std::vector<std::string>{});
}

// Experts in one tensor for each layer, and their scales in another, as transformers stacks them.
void stack_experts(std::vector<TestTensor>& tensors, int layer, int num_experts) {
  std::map<std::string, TestTensor> found, stacks;
  for (const TestTensor& tensor : tensors) found[tensor.name] = tensor;
  const std::string experts = str("model.layers.", layer, ".mlp.experts.");
  for (int expert = 0; expert < num_experts; ++expert) {
    for (const char* projection : {"gate_proj", "up_proj", "down_proj"}) {
      const bool is_down = projection == std::string_view("down_proj");
      for (const std::string suffix : {"", "_scale_inv"}) {
        const TestTensor& one = found.at(str(experts, expert, ".", projection, ".weight", suffix));
        const std::string name = str(experts, is_down ? "down_proj" : "gate_up_proj", suffix);
        TestTensor& stack = stacks[name];
        const std::size_t comma = one.shape.find(',');
        const int rows = std::stoi(one.shape.substr(1)) * (is_down ? 1 : 2);
        stack.name = name;
        stack.dtype = one.dtype;
        stack.shape = str("[", num_experts, ", ", rows, one.shape.substr(comma));
        stack.bytes += one.bytes;
      }
    }
  }
  std::erase_if(tensors,
                [&](const TestTensor& tensor) { return tensor.name.starts_with(experts); });
  for (const auto& [name, stack] : stacks) tensors.push_back(stack);
}

TEST_F(CheckOutputTest, stacked_experts_have_their_scales_in_a_stack) {
  const auto make_stacked = [&](const auto& edit_stacks) {
    make(kFp8);
    rewrite([&](std::vector<TestTensor>& tensors) {
      stack_experts(tensors, 1, 8);
      edit_stacks(tensors);
    });
  };
  const std::string scales = "model.layers.1.mlp.experts.gate_up_proj_scale_inv";
  make_stacked([](auto&) {});
  EXPECT_EQ(faults(true), std::vector<std::string>{});
  make_stacked([&](std::vector<TestTensor>& tensors) {
    for (TestTensor& tensor : tensors) {
      if (tensor.name == scales) tensor.bytes[3] |= '\x80';
    }
  });
  EXPECT_EQ(faults(), std::vector<std::string>{scales + " holds a negative scale"});
  make_stacked([&](std::vector<TestTensor>& tensors) {
    for (TestTensor& tensor : tensors) {
      if (tensor.name != scales) continue;
      tensor.dtype = "F16";
      tensor.bytes.resize(tensor.bytes.size() / 2);
    }
  });
  EXPECT_EQ(faults(), std::vector<std::string>{scales + " is missing, or no F32"});
}

TEST_F(CheckOutputTest, codes_of_nan) {
  make({});
  edit(kExpert + "down_proj.weight_scale", [](char* bytes) { bytes[5] = 0x7f; });
  expect_fault(kExpert + "down_proj.weight_scale holds 1 values or codes that are NaN");
  make(kFp8);
  edit(kExpert + "down_proj.weight", [](char* bytes) { bytes[9] = static_cast<char>(0xff); });
  expect_fault("down_proj.weight holds 1 values or codes that are NaN or infinite, the first at 9");
}

TEST_F(CheckOutputTest, a_source_that_is_no_number) {
  make({});
  edit(
      kExpert + "up_proj.weight", [](char* bytes) { std::memcpy(bytes, "\xc0\x7f", 2); }, "small");
  expect_fault(kExpert + "up_proj (nvfp4) is off by nan of its source", true);
}

TEST_F(CheckOutputTest, lists_that_an_engine_reads_wrong) {
  const auto drop = [](Json& json, const char* section, const char* key, const char* name) {
    Json* part = json.find(section);
    std::erase(part->find(key)->as_array(), Json(name));
  };
  make({});
  edit_json("config.json", [&](Json& json) {
    drop(json, "quantization_config", "ignore", "model.layers.3.mlp.gate");
    drop(json, "quantization_config", "ignore", "model.layers.*.mlp.gate");
  });
  expect_fault("model.layers.3.mlp.gate is taken for the opposite of what it is by vLLM");
  make({});
  edit_json("config.json", [&](Json& json) {
    drop(json, "quantization_config", "ignore", "model.layers.2.self_attn*");
  });
  expect_fault("model.layers.2.self_attn");
  make({});
  for (const char* name : {"config.json", "hf_quant_config.json"}) {
    const bool is_config = std::string_view(name) == "config.json";
    edit_json(name, [&](Json& json) {
      drop(json, is_config ? "quantization_config" : "quantization",
           is_config ? "ignore" : "exclude_modules", "model.embed_tokens");
    });
  }
  EXPECT_EQ(faults(), std::vector<std::string>{}) << "an embedding is no linear layer";
  edit_json("hf_quant_config.json",
            [&](Json& json) { drop(json, "quantization", "exclude_modules", "lm_head"); });
  expect_fault("hf_quant_config.json and config.json list different modules");
  edit_json("hf_quant_config.json", [&](Json& json) {
    Json::Array& list = json.find("quantization")->find("exclude_modules")->as_array();
    list.insert(list.begin(), {"lm_head", "lm_head"});
  });
  EXPECT_EQ(faults(), std::vector<std::string>{}) << "the same, in another order";
  const std::string config = read_file(dir_ / "out/config.json").value();
  edit_json("config.json", [](Json& json) {
    Json* part = json.find("quantization_config");
    part->set("exclude_modules", *part->find("ignore"));
    std::erase_if(part->as_object(), [](const auto& member) { return member.first == "ignore"; });
  });
  expect_fault("no module is excluded, not even the routers");
  dir_.write("out/config.json", config);
  fs::remove(dir_ / "out/hf_quant_config.json");
  expect_fault("hf_quant_config.json is missing");
  make({.layout = Nvfp4Layout::kCompressedTensors});
  edit_json("config.json",
            [&](Json& json) { drop(json, "quantization_config", "ignore", "lm_head"); });
  expect_fault("lm_head is not quantised, but is missing from the list");
  edit_json("config.json", [&](Json& json) {
    for (const char* name : {"model.embed_tokens", "model.layers.3.mlp.gate"})
      drop(json, "quantization_config", "ignore", name);
    json.find("quantization_config")->find("ignore")->as_array().push_back("lm_head");
  });
  EXPECT_EQ(faults(), std::vector<std::string>{}) << "these are no linear layers";
  // Regular expressions of other quantisers are not judged, and that is told.
  edit_json("config.json", [](Json& json) {
    Json* part = json.find("quantization_config");
    part->find("ignore")->as_array().push_back("re:.*self_attn.*");
  });
  const OutputCheck check = check_output({dir_ / "out", ""}, pool_, {}).value();
  EXPECT_EQ(check.faults, std::vector<std::string>{});
  ASSERT_EQ(check.unchecked.size(), 1u);
  EXPECT_NE(check.unchecked[0].find("regular expressions"), std::string::npos);
  make({.format = TargetFormat::kFp8, .scope = Scope::kAllLinear, .excludes = {"*self_attn*"}});
  edit_json("config.json", [](Json& json) {
    Json* part = json.find("quantization_config");
    part->find("modules_to_not_convert")->as_array().push_back("mlp");
  });
  expect_fault("mlp.gate_up_proj is taken for the opposite of what it is by SGLang");
  edit_json("config.json", [](Json& json) {
    json.find("quantization_config")
        ->set("modules_to_not_convert", Json::Array{"*self_attn*", "model.layers.4*", "lm_head"});
  });
  expect_fault("self_attn.fused_qkv_a_proj is taken for the opposite of what it is by vLLM");
  edit_json("config.json", [](Json& json) { json.set("quantization_config", nullptr); });
  expect_fault("config.json has no quantization_config");
}

TEST_F(CheckOutputTest, fields_that_say_another_format_than_the_tensors) {
  const Recipe modelopt = {}, tensors = {.layout = Nvfp4Layout::kCompressedTensors};
  const char *const config = "config.json", *const beside = "hf_quant_config.json";
  struct Case {
    const Recipe& recipe;
    const char* file;
    const char* path;  // below the descriptor
    Json value;
    std::string fault;  // empty: none
  };
  const std::string c = "config.json: quantization_config.", group = c + "config_groups.group_0.",
                    h = "hf_quant_config.json: quantization.",
                    is_nvfp4 = ", but the weights are nvfp4; expected ",
                    is_missing = " is missing, without which engines do not start";
  const Case cases[] = {
      {modelopt, config, "quant_method", "fp8",
       "the quant_method of config.json is \"fp8\", but the tensors have the names of nvfp4 by "
       "modelopt"},
      {modelopt, config, "quant_algo", "MXFP8", c + "quant_algo is \"MXFP8\"" + is_nvfp4 + "NVFP4"},
      {modelopt, config, "quant_algo", "W4A8_AWQ_NVFP4",
       c + "quant_algo is \"W4A8_AWQ_NVFP4\"" + is_nvfp4 + "NVFP4"},
      {modelopt, config, "quant_algo", nullptr, c + "quant_algo" + is_missing + "; expected NVFP4"},
      {modelopt, config, "quant_algo", "nvfp4", ""},
      {modelopt, config, "exclude_modules", Json::Array{}, ""},
      {modelopt, beside, "quant_algo", "FP8", h + "quant_algo is \"FP8\"" + is_nvfp4 + "NVFP4"},
      {modelopt, beside, "quant_algo", "W4A16_NVFP4",
       h + "quant_algo is \"W4A16_NVFP4\", but that of config.json is \"NVFP4\""},
      {modelopt, config, "group_size", 32, c + "group_size is 32" + is_nvfp4 + "16"},
      {modelopt, beside, "group_size", 32, h + "group_size is 32" + is_nvfp4 + "16"},
      {modelopt, config, "config_groups.group_0.weights.num_bits", 8,
       group + "weights.num_bits is 8" + is_nvfp4 + "4"},
      {modelopt, beside, "kv_cache_quant_algo", "FP8",
       h + "kv_cache_quant_algo is \"FP8\", but config.json has no kv_cache_scheme, and no layer a "
           "k_scale; expected null"},
      {kFp8, config, "activation_scheme", "static",
       c + "activation_scheme is \"static\", but engines take no such with a weight_block_size; "
           "expected dynamic"},
      {kFp8, config, "activation_scheme", nullptr,
       c + "activation_scheme" + is_missing + "; expected dynamic"},
      {kFp8, config, "scale_fmt", nullptr, ""},
      {kFp8, config, "scale_fmt", "float32", ""},
      {kFp8, config, "fmt", "e5m2", c + "fmt is \"e5m2\", but the weights are fp8; expected e4m3"},
      {tensors, config, "config_groups", Json::Object{},
       c + "config_groups has no group with num_bits 4, but weights are nvfp4"},
      {tensors, config, "config_groups.group_0.targets", nullptr, group + "targets" + is_missing},
      {tensors, config, "config_groups.group_0.weights", nullptr, group + "weights" + is_missing},
      {tensors, config, "config_groups.group_0.weights.group_size", 32,
       group + "weights.group_size is 32" + is_nvfp4 + "16"},
      {tensors, config, "config_groups.group_0.weights.num_bits", 8,
       group + "weights.num_bits is 8" + is_nvfp4 + "4"},
      {tensors, config, "format", "float-quantized",
       c + "format is \"float-quantized\"" + is_nvfp4 + "nvfp4-pack-quantized"},
  };
  const Recipe* made = nullptr;
  for (const Case& one : cases) {
    if (made != &one.recipe) make(one.recipe);
    made = &one.recipe;
    const std::string was = read_file(dir_ / ("out/" + std::string(one.file))).value();
    edit_json(one.file, [&](Json& json) {
      Json* at = json.find(one.file == config ? "quantization_config" : "quantization");
      const auto keys = split(one.path, '.');
      for (std::size_t i = 0; i + 1 < keys.size(); ++i) at = at->find(keys[i]);
      at->set(std::string(keys.back()), one.value);
    });
    EXPECT_EQ(faults(), one.fault.empty() ? std::vector<std::string>{} : std::vector{one.fault})
        << one.path;
    dir_.write("out/" + std::string(one.file), was);
  }
}

TEST_F(CheckOutputTest, a_cache_of_fp8_has_a_scheme) {
  make({});
  edit_json("hf_quant_config.json",
            [](Json& json) { json.find("quantization")->set("kv_cache_quant_algo", "FP8"); });
  edit_json("config.json", [](Json& json) {
    json.find("quantization_config")->set("kv_cache_scheme", Json::Object{{"num_bits", 8}});
  });
  EXPECT_EQ(faults(), std::vector<std::string>{});
}

TEST_F(CheckOutputTest, a_descriptor_that_lies_only_beside_config_json) {
  make({});
  edit_json("config.json", [](Json& json) { json.set("quantization_config", nullptr); });
  EXPECT_EQ(faults(), std::vector<std::string>{});
  edit_json("hf_quant_config.json", [](Json& json) {
    json.find("quantization")->set("exclude_modules", Json::Array{"lm_head"});
  });
  expect_fault("is taken for the opposite of what it is by vLLM");
}

TEST_F(CheckOutputTest, an_index_that_does_not_fit) {
  make({}, 1 << 20);
  EXPECT_TRUE(faults().empty());
  edit_json(kShardIndexName, [](Json& json) { json.find("metadata")->set("total_size", 12345); });
  expect_fault("the index says a total_size of 12345, but the tensors are ");
}

TEST_F(CheckOutputTest, weights_that_moved_further_than_rounding_explains) {
  make({});
  edit(kExpert + "down_proj.weight_scale_2", [](char* bytes) {
    float value = 0;
    std::memcpy(&value, bytes, sizeof value);
    set_float(bytes, 2 * value);
  });
  EXPECT_TRUE(faults().empty());
  expect_fault(kExpert + "down_proj (nvfp4) is off by ", true);
  make({});
  edit("model.norm.weight", [](char* bytes) { bytes[0] ^= 1; });
  expect_fault("model.norm.weight is not the source's", true);
  make({});
  edit("lm_head.weight", [](char* bytes) { bytes[1] ^= 8; });
  expect_fault("lm_head (bf16) is off by ", true);
}

TEST_F(CheckOutputTest, scales_that_are_no_powers_of_two_though_config_says_so) {
  Recipe recipe = kFp8;
  recipe.fp8_scales = Fp8ScaleFormat::kUe8m0;
  make(recipe);
  EXPECT_TRUE(faults().empty());
  edit(kExpert + "down_proj.weight_scale_inv", [](char* bytes) { set_float(bytes, 0.3f); });
  expect_fault("down_proj.weight_scale_inv has a scale that is no power of two");
}

TEST_F(CheckOutputTest, tensors_that_config_json_has_no_place_for_are_as_in_the_source) {
  Json json = read_json_file(source_ + "/config.json").value();
  json.set("num_nextn_predict_layers", 0);
  dir_.write("small/config.json", dump_json(json));
  make(kFp8);
  EXPECT_EQ(faults(true), std::vector<std::string>{});
  const std::string name = "model.layers.5.eh_proj.weight";
  edit(name, [](char* bytes) { bytes[0] ^= 1; });
  EXPECT_EQ(faults(true), std::vector<std::string>{name + " belongs to no part of the model"});
  EXPECT_GT(faults().size(), 1u);
}

TEST_F(CheckOutputTest, weights_below_the_least_scale_of_fp8_become_zeros) {
  edit(
      kExpert + "down_proj.weight",
      [](char* bytes) {
        const std::uint16_t tiny = to_bf16(1e-30f).bits;
        for (int i = 0; i < 256 * 128; ++i) std::memcpy(bytes + 2 * i, &tiny, 2);
      },
      "small");
  for (const Fp8ScaleFormat scales : {Fp8ScaleFormat::kFp32, Fp8ScaleFormat::kUe8m0}) {
    Recipe recipe = kFp8;
    recipe.fp8_scales = scales;
    make(recipe);
    EXPECT_EQ(faults(true), std::vector<std::string>{});
  }
  edit(kExpert + "down_proj.weight_scale_inv", [](char* bytes) { set_float(bytes, 1); });
  edit(kExpert + "down_proj.weight", [](char* bytes) { bytes[0] = 1; });
  expect_fault(kExpert + "down_proj (fp8) is off by ", true);
}

TEST_F(CheckOutputTest, progress_comes_to_what_was_announced) {
  make({});
  const CheckOptions options = {dir_ / "out", source_};
  std::atomic<std::int64_t> read = 0;
  ASSERT_TRUE(check_output(options, pool_, [&](std::int64_t bytes) { read += bytes; }).ok());
  const std::int64_t announced = bytes_to_check(options).value();
  EXPECT_LE(read, announced);
  EXPECT_GT(read, announced * 9 / 10);  // scales and vectors are read, but not told, twice
}

TEST_F(CheckOutputTest, a_file_that_changed_since_it_was_written) {
  Conversion conversion =
      Conversion::prepare({.source = source_, .out = dir_ / "out", .recipe = {}}).value();
  ASSERT_TRUE(conversion.run(pool_, {}).ok());
  EXPECT_TRUE(faults().empty());
  edit("lm_head.weight", [](char* bytes) { bytes[0] ^= 1; });
  expect_fault("model.safetensors is not the file that was written");
}

TEST_F(CheckOutputTest, checkpoints_of_other_makers_are_read) {
  for (const char* name : {"fp8_block", "nvfp4_modelopt", "nvfp4_ct_mixed"}) {
    const auto result = check_output({str(GLINT_SOURCE_DIR "/tests/golden/", name), ""}, pool_, {});
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_FALSE(result.value().tensors.empty());
    for (const std::string& fault : result.value().faults) {
      EXPECT_EQ(fault.find("quantization"), std::string::npos) << fault;
      EXPECT_EQ(fault.find("quant_method"), std::string::npos) << fault;
    }
  }
}

}  // namespace
}  // namespace glint
