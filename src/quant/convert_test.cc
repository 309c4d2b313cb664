#include "quant/convert.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>

#include "base/file.h"
#include "base/str.h"
#include "base/test_dir.h"
#include "base/thread_pool.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/test_files.h"
#include "quant/check_output.h"
#include "quant/testing.h"
#include "quant/xxh128.h"

namespace glint {
namespace {

namespace fs = std::filesystem;

std::string golden(std::string_view name) { return str(GLINT_SOURCE_DIR "/tests/golden/", name); }

class ConvertTest : public testing::Test {
 protected:
  Status convert(const std::string& source, const std::string& out, const Recipe& recipe,
                 int threads = 2, std::int64_t max_shard_bytes = 1 << 20) const {
    GLINT_TRY(Conversion conversion, Conversion::prepare({.source = source,
                                                          .out = dir_ / out,
                                                          .recipe = recipe,
                                                          .max_shard_bytes = max_shard_bytes}));
    ThreadPool pool(threads);
    std::int64_t read = 0;
    GLINT_TRY_STATUS(conversion.check_finished({}));
    const std::int64_t to_read = conversion.bytes_to_read();
    GLINT_TRY_STATUS(conversion.run(pool, [&](std::int64_t bytes) { read += bytes; }));
    EXPECT_EQ(read, to_read);
    return Ok{};
  }
  std::string refusal(const std::string& source, const std::string& out,
                      const Recipe& recipe = {}) const {
    const Status status = convert(source, out, recipe);
    return status.ok() ? "no refusal" : status.error().message;
  }
  std::map<std::string, std::string> files(const std::string& out) const {
    std::map<std::string, std::string> hashes;
    for (const auto& entry : fs::directory_iterator(dir_ / out)) {
      if (entry.is_regular_file()) {
        hashes[entry.path().filename()] = hash_file(entry.path()).value();
      }
    }
    return hashes;
  }
  OutputCheck check(const std::string& out, const std::string& source) const {
    ThreadPool pool(2);
    Result<OutputCheck> result = check_output({dir_ / out, source}, pool, {});
    EXPECT_TRUE(result.ok()) << result.error().message;
    return std::move(result).value();
  }
  void expect_good(const std::string& out, const std::string& source) const {
    for (const std::string& fault : check(out, source).faults) ADD_FAILURE() << fault;
  }
  // A copy of the model that can be damaged.
  std::string copy_of_model() const {
    fs::copy(model_, dir_ / "source");
    return dir_ / "source";
  }

  const TestDir dir_;
  const std::string model_ = make_small_model(dir_);
};

const Recipe kFp8 = {
    .format = TargetFormat::kFp8, .scope = Scope::kAllLinear, .mtp = MtpChoice::kConvert};

TEST_F(ConvertTest, every_recipe_gives_a_checkpoint_without_faults) {
  const std::map<std::string, Recipe> recipes = {
      {"experts", {}},
      {"mlp", {.scope = Scope::kMlp, .scale = ScaleRule::kFourOverSix}},
      {"all", {.scope = Scope::kAllLinear, .mtp = MtpChoice::kConvert}},
      {"ct", {.scale = ScaleRule::kAbsmax, .layout = Nvfp4Layout::kCompressedTensors}},
      {"modelopt", {.scale = ScaleRule::kAbsmax, .power_of_two = false}},
      {"rules", {.rules = {"model.layers.[13].mlp.experts.*", "*.o_proj"}}},
      {"fp8", kFp8},
      {"ue8m0",
       {.format = TargetFormat::kFp8,
        .scope = Scope::kAllLinear,
        .fp8_scales = Fp8ScaleFormat::kUe8m0}}};
  for (const auto& [name, recipe] : recipes) {
    const Status status = convert(model_, name, recipe);
    ASSERT_TRUE(status.ok()) << name << ": " << status.error().message;
    expect_good(name, model_);
    EXPECT_FALSE(fs::exists(dir_ / (name + ".partial")));
  }
}

TEST_F(ConvertTest, mtp_layers_after_the_first_are_left_out) {
  const std::string source = copy_of_model();
  Json json = read_json_file(source + "/config.json").value();
  const std::int64_t layers = json.find("num_hidden_layers")->as_int();
  json.set("num_nextn_predict_layers", 2);
  json.set("indexer_types", Json::Array(static_cast<std::size_t>(layers) + 2, "full"));
  dir_.write("source/config.json", dump_json(json));
  const std::string unused = str("model.layers.", layers + 1, ".eh_proj.weight");
  dir_.write("source/more.safetensors", safetensors_file({{unused, "F8_E4M3", "[1, 1]", "x"}}));
  fs::rename(source + "/model.safetensors", source + "/first.safetensors");
  ASSERT_TRUE(convert(source, "out", kFp8).ok());
  expect_good("out", source);
  EXPECT_EQ(SafetensorsSource::open(dir_ / "out").value()->find(unused), nullptr);
  const ModelConfig config = read_config(dir_ / "out/config.json").value();
  EXPECT_EQ(config.num_nextn_predict_layers, 1);
  EXPECT_EQ(config.num_unused_mtp_layers, 0);
}

TEST_F(ConvertTest, bytes_do_not_depend_on_the_number_of_threads) {
  ASSERT_TRUE(convert(model_, "one", {}, 1).ok());
  ASSERT_TRUE(convert(model_, "four", {}, 4).ok());
  EXPECT_EQ(files("one"), files("four"));
}

TEST_F(ConvertTest, small_files_are_copied_and_old_descriptors_are_not) {
  const std::string source = copy_of_model();
  dir_.write("source/hf_quant_config.json", "{}");
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}) {
    fs::copy_file(str(GLINT_SOURCE_DIR "/models/glm5-tiny/", name), str(source, "/", name));
  }
  dir_.write("source/LICENSE", "MIT");
  dir_.write("source/.hidden", "x");
  dir_.write("source/pytorch_model.bin", "weights");
  fs::create_directory(source + "/folder");
  dir_.write("source/additional_chat_templates/tool_use.jinja", "{{ tools }}");
  ASSERT_TRUE(convert(source, "out", kFp8).ok());
  EXPECT_EQ(read_file(dir_ / "out/additional_chat_templates/tool_use.jinja").value(),
            "{{ tools }}");
  const auto before = files("source"), after = files("out");
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
                           "generation_config.json", "LICENSE"}) {
    EXPECT_EQ(before.at(name), after.at(name)) << name;
  }
  for (const char* name : {"hf_quant_config.json", ".hidden", "pytorch_model.bin", "folder"}) {
    EXPECT_FALSE(after.contains(name)) << name;
  }
}

TEST_F(ConvertTest, a_run_that_was_killed_before_its_manifest_goes_on) {
  fs::create_directory(dir_ / "out.partial");
  dir_.write(str("out.partial/", kManifestName, ".tmp.123"), "{\"too");
  ASSERT_TRUE(convert(model_, "out", {}).ok());
  EXPECT_FALSE(files("out").contains(str(kManifestName, ".tmp.123")));
  expect_good("out", model_);
}

TEST_F(ConvertTest, a_run_that_was_killed_while_its_files_moved_goes_on) {
  fs::create_directory(dir_ / "out");
  ASSERT_TRUE(convert(model_, "out", {}).ok());
  const auto whole = files("out");
  // Moves the rest back to OUT.partial; the manifest goes to OUT first, config.json last.
  const auto left = [&](const auto& is_left) {
    fs::create_directory(dir_ / "out.partial");
    for (const auto& [name, hash] : whole) {
      if (is_left(name)) fs::rename(dir_ / "out/" + name, dir_ / "out.partial/" + name);
    }
  };
  const auto expect_whole = [&] {
    ASSERT_TRUE(convert(model_, "out", {}).ok());
    EXPECT_EQ(files("out"), whole);
    EXPECT_FALSE(fs::exists(dir_ / "out.partial"));
  };
  left([](const std::string& name) { return name != kManifestName; });
  EXPECT_EQ(refusal(model_, "out", kFp8),
            str(dir_ / "out", " and ", dir_ / "out.partial",
                " hold a result that was being moved, and not of this job: its recipe differs; "
                "complete it by its own command, or choose another OUT"));
  dir_.write("out/config.json", "mine");
  EXPECT_EQ(refusal(model_, "out"),
            "cannot rename to " + dir_ / "out/config.json" + ": File exists");
  EXPECT_EQ(read_file(dir_ / "out/config.json").value(), "mine");
  fs::remove(dir_ / "out/config.json");
  expect_whole();
  left([](const std::string& name) { return name == "config.json"; });
  const auto last = std::prev(whole.upper_bound("model-~"));  // a shard
  const std::string path = dir_ / "out/" + last->first, good = read_file(path).value();
  const std::string lost =
      str(path, " is missing or has changed since it was finished; empty ", dir_ / "out",
          ", remove ", dir_ / "out.partial", ", and run the command again");
  dir_.write("out/" + last->first, good.substr(1));
  EXPECT_EQ(refusal(model_, "out"), lost);
  fs::remove(path);
  EXPECT_EQ(refusal(model_, "out"), lost);
  EXPECT_TRUE(fs::exists(dir_ / "out.partial/config.json"));
  dir_.write("out/" + last->first, good);
  expect_whole();
  left([](const std::string&) { return false; });
  expect_whole();
}

TEST_F(ConvertTest, gate_and_up_share_scales_and_zeros_are_harmless) {
  const std::string source = copy_of_model();
  {
    // Gate of an expert ten times larger than up, one expert all zeros, a group of zeros.
    std::string file = read_file(source + "/model.safetensors").value();
    const auto tensors = parse_safetensors(std::as_bytes(std::span(file))).value();
    for (const StoredTensor& tensor : tensors) {
      auto* values = reinterpret_cast<std::uint16_t*>(
          file.data() + (reinterpret_cast<const char*>(tensor.bytes.data()) - file.data()));
      const auto count = static_cast<std::size_t>(tensor.size());
      if (tensor.name == "model.layers.1.mlp.experts.0.gate_proj.weight") {
        for (std::size_t i = 0; i < count; ++i) {
          values[i] = to_bf16(10 * to_float(BF16{values[i]})).bits;
        }
      }
      if (tensor.name.starts_with("model.layers.1.mlp.experts.1.")) std::fill_n(values, count, 0);
      if (tensor.name == "model.layers.1.mlp.experts.2.up_proj.weight") std::fill_n(values, 16, 0);
    }
    ASSERT_TRUE(write_file_atomic(source + "/model.safetensors", file).ok());
  }
  ASSERT_TRUE(convert(source, "out", {}).ok());
  expect_good("out", source);
  Checkpoint out = Checkpoint::open(dir_ / "out").value();
  const auto weight = [&](const std::string& name) {
    return out.weight("model.layers.1.mlp.experts." + name, 128, 256).value();
  };
  EXPECT_EQ(global_scale_of(weight("0.gate_proj")), global_scale_of(weight("0.up_proj")));
  EXPECT_EQ(global_scale_of(weight("1.gate_proj")), 1);
  EXPECT_EQ(std::to_integer<int>(*weight("1.gate_proj").scale.data), 0x38);
  EXPECT_EQ(std::to_integer<int>(*weight("2.up_proj").scale.data), 0x38);
}

TEST_F(ConvertTest, input_scales_come_from_the_calibration) {
  ActivationRanges ranges;
  for (int layer = 1; layer < 6; ++layer) {
    for (int expert = 0; expert < 8; ++expert) {
      const std::string prefix = str("model.layers.", layer, ".mlp.experts.", expert, ".");
      ranges[prefix + "gate_proj"] = {2, 5};
      ranges[prefix + "up_proj"] = {3, 5};
      ranges[prefix + "down_proj"] = {7, 5};
    }
  }
  // They saw nothing; the second is of the MTP layer, which stays as it is.
  ranges["model.layers.2.mlp.experts.4.down_proj"] = {};
  ranges["model.layers.5.mlp.experts.4.down_proj"] = {};
  dir_.write("ranges.json", dump_json(to_json(ranges)));
  ConversionOptions options = {.source = model_,
                               .out = dir_ / "out",
                               .recipe = {.headroom = 4},
                               .calibration = dir_ / "ranges.json"};
  Conversion conversion = Conversion::prepare(options).value();
  EXPECT_EQ(conversion.unseen_experts(),
            std::vector<std::string>{"model.layers.2.mlp.experts.4.down_proj"});
  EXPECT_EQ(*conversion.manifest().job.find("unseen_experts"),
            Json(Json::Array{"model.layers.2.mlp.experts.4.down_proj"}));
  ThreadPool pool(2);
  ASSERT_TRUE(conversion.run(pool, {}).ok());
  const Checkpoint out = Checkpoint::open(dir_ / "out").value();
  const auto scale = [&](const std::string& name) {
    float value = 0;
    std::memcpy(&value, out.source().find(name + ".input_scale")->bytes.data(), sizeof value);
    return value;
  };
  EXPECT_EQ(scale("model.layers.1.mlp.experts.0.gate_proj"), 4 * 3.0f / 2688);
  EXPECT_EQ(scale("model.layers.1.mlp.experts.0.up_proj"), 4 * 3.0f / 2688);
  EXPECT_EQ(scale("model.layers.2.mlp.experts.4.down_proj"), 4 * 7.0f / 2688);

  ranges.erase("model.layers.1.mlp.experts.0.gate_proj");
  ranges.erase("model.layers.1.mlp.experts.0.up_proj");
  dir_.write("ranges.json", dump_json(to_json(ranges)));
  options.out = dir_ / "other";
  EXPECT_TRUE(Conversion::prepare(options).error().message.starts_with(
      "the calibration saw nothing of model.layers.1.mlp.experts.0."));
}

TEST_F(ConvertTest, bf16_undoes_fp8_and_nvfp4) {
  for (const char* name : {"fp8_block", "nvfp4_modelopt", "nvfp4_ct_mixed", "tied_f16"}) {
    const Status status = convert(golden(name), name, {.format = TargetFormat::kBf16});
    ASSERT_TRUE(status.ok()) << name << ": " << status.error().message;
    expect_good(name, golden(name));
    for (const CheckedTensor& tensor : check(name, "").tensors) {
      EXPECT_NE(tensor.format, WeightFormat::kNvfp4);
      EXPECT_NE(tensor.format, WeightFormat::kFp8Block);
    }
  }
  // NVFP4 with power-of-two scales is exact in BF16: converting it loses nothing.
  const Recipe absmax = {.scale = ScaleRule::kAbsmax};
  ASSERT_TRUE(convert(model_, "nvfp4", absmax).ok());
  ASSERT_TRUE(convert(dir_ / "nvfp4", "bf16", {.format = TargetFormat::kBf16}).ok());
  for (const CheckedTensor& tensor : check("bf16", dir_ / "nvfp4").tensors) {
    EXPECT_EQ(tensor.error.squared_error, 0) << tensor.name;
  }
}

TEST_F(ConvertTest, stacked_experts_come_out_one_by_one) {
  ASSERT_TRUE(convert(golden("stacked"), "out", {}).ok());
  const Checkpoint out = Checkpoint::open(dir_ / "out").value();
  for (const StoredTensor& tensor : out.source().tensors()) {
    EXPECT_FALSE(tensor.name.ends_with("gate_up_proj") &&
                 tensor.name.find(".78.") == std::string::npos && tensor.type == StoredType::kU8);
  }
  expect_good("out", golden("stacked"));
}

TEST_F(ConvertTest, sources_that_cannot_be_quantised_are_refused_before_anything_is_written) {
  EXPECT_NE(refusal(golden("fp8_block"), "out", {}).find("is already quantised (fp8 in its "),
            std::string::npos);
  EXPECT_NE(refusal(golden("nvfp4_modelopt"), "out", kFp8).find("is already quantised"),
            std::string::npos);
  EXPECT_NE(refusal(model_, "out", {.format = TargetFormat::kBf16}).find("is not quantised"),
            std::string::npos);
  EXPECT_NE(refusal(model_, "out", {.rules = {"nothing"}}).find("matches no linear layer"),
            std::string::npos);
  EXPECT_NE(refusal(dir_ / "nowhere", "out").find("cannot open"), std::string::npos);
  EXPECT_FALSE(fs::exists(dir_ / "out.partial"));
  fs::create_directory(dir_ / "there");
  dir_.write("there/file", "");
  EXPECT_EQ(refusal(model_, "there"),
            str(dir_ / "there", " exists; expected a directory that is empty or yet to be made"));
  EXPECT_NE(refusal(model_, "no/parent").find("cannot create"), std::string::npos);
}

TEST_F(ConvertTest, small_files_that_cannot_be_copied_are_refused_before_anything_is_written) {
  fs::copy(model_, dir_ / "source");
  fs::remove(dir_ / "source/tokenizer.json");
  fs::create_symlink("nowhere", dir_ / "source/tokenizer.json");
  EXPECT_EQ(refusal(dir_ / "source", "out"), "cannot open " + dir_ / "source/tokenizer.json" +
                                                 ": it is a link to nowhere, which is not there");
  fs::remove(dir_ / "source/tokenizer.json");
  dir_.write("source/tokenizer.json", "version https://git-lfs.github.com/spec/v1\n");
  EXPECT_NE(refusal(dir_ / "source", "out").find("tokenizer.json is a git-lfs pointer"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(dir_ / "out.partial"));
}

TEST_F(ConvertTest, a_missing_shard_is_refused) {
  ASSERT_TRUE(convert(model_, "fp8", kFp8).ok());
  ASSERT_TRUE(convert(dir_ / "fp8", "bf16", {.format = TargetFormat::kBf16}).ok());
  fs::path shard;
  for (const auto& entry : fs::directory_iterator(dir_ / "bf16")) {
    if (entry.path().extension() == ".safetensors") shard = entry.path();
  }
  fs::remove(shard);
  EXPECT_NE(refusal(dir_ / "bf16", "out").find(shard.filename()), std::string::npos);
  EXPECT_FALSE(fs::exists(dir_ / "out.partial"));
}

TEST_F(ConvertTest, values_that_cannot_be_quantised_are_refused_with_tensor_and_index) {
  struct Case {
    const char* tensor;
    std::size_t index;
    std::uint16_t bits;
    const char* words;
  };
  const Case cases[] = {
      {"model.layers.2.mlp.experts.3.down_proj.weight", 1000, 0x7fc0,
       "\"model.layers.2.mlp.experts.3.down_proj\" is NaN or infinite at [7, 104] (index 1000)"},
      {"model.layers.2.mlp.experts.3.down_proj.weight", 1000, 0x7f7f,
       "is 3.38953e+38 at [7, 104] (index 1000); expected magnitudes below 1e19"},
      {"model.layers.2.input_layernorm.weight", 17, 0xff80,
       "\"model.layers.2.input_layernorm.weight\" is NaN or infinite at index 17"}};
  for (const Case& c : cases) {
    const std::string source = copy_of_model();
    std::string file = read_file(source + "/model.safetensors").value();
    const auto tensors = parse_safetensors(std::as_bytes(std::span(file))).value();
    for (const StoredTensor& tensor : tensors) {
      if (tensor.name != c.tensor) continue;
      const auto at = reinterpret_cast<const char*>(tensor.bytes.data()) - file.data();
      std::memcpy(file.data() + at + static_cast<std::ptrdiff_t>(2 * c.index), &c.bits, 2);
    }
    ASSERT_TRUE(write_file_atomic(source + "/model.safetensors", file).ok());
    EXPECT_NE(refusal(source, "out").find(c.words), std::string::npos) << refusal(source, "out");
    EXPECT_NE(refusal(source, "out8", kFp8).find(c.words), std::string::npos);
    EXPECT_FALSE(fs::exists(dir_ / "out"));
    for (const char* name : {"source", "out.partial", "out8.partial"}) fs::remove_all(dir_ / name);
  }
}

// A source whose last tensor ends a run, after the shards before it are finished.
class ResumeTest : public ConvertTest {
 protected:
  void SetUp() override {
    source_ = copy_of_model();
    std::string file = read_file(source_ + "/model.safetensors").value();
    const std::uint16_t nan = 0x7fc0;
    std::memcpy(file.data() + file.size() - 2, &nan, 2);
    ASSERT_TRUE(write_file_atomic(source_ + "/model.safetensors", file).ok());
    ASSERT_NE(refusal(source_, "out").find("is NaN"), std::string::npos);
  }
  std::string shard(int number) const {
    for (const auto& entry : fs::directory_iterator(dir_ / "out.partial")) {
      if (entry.path().filename().string().starts_with(str("model-0000", number))) {
        return entry.path();
      }
    }
    return "";
  }

  std::string source_;
};

TEST_F(ResumeTest, finished_shards_are_not_made_again) {
  const auto before = fs::last_write_time(shard(1));
  {
    const auto conversion = Conversion::prepare(
        {.source = source_, .out = dir_ / "out", .recipe = {}, .max_shard_bytes = 1 << 20});
    EXPECT_EQ(conversion.value().num_finished() + 1, conversion.value().num_shards());
    EXPECT_NE(refusal(source_, "out").find("is being written by another process"),
              std::string::npos);
  }
  EXPECT_NE(refusal(source_, "out").find("is NaN"), std::string::npos);
  EXPECT_EQ(fs::last_write_time(shard(1)), before);
}

TEST_F(ResumeTest, a_shard_that_changed_is_made_again) {
  const std::string good = read_file(shard(2)).value();
  std::string bad = good;
  bad.back() ^= 1;
  const std::string path = shard(2);
  ASSERT_TRUE(write_file_atomic(path, bad).ok());
  EXPECT_NE(refusal(source_, "out").find("is NaN"), std::string::npos);
  EXPECT_TRUE(read_file(path).value() == good);
  fs::remove(path);
  EXPECT_NE(refusal(source_, "out").find("is NaN"), std::string::npos);
  EXPECT_TRUE(read_file(path).value() == good);
}

TEST_F(ResumeTest, leftovers_are_room_for_what_replaces_them) {
  const auto wanted = [&] {
    return Conversion::prepare(
               {.source = source_, .out = dir_ / "out", .recipe = {}, .max_shard_bytes = 1 << 20})
        .value()
        .bytes_to_write();
  };
  const std::int64_t with_half_a_shard = wanted();
  for (const auto& entry : fs::directory_iterator(dir_ / "out.partial")) {
    if (entry.path().extension() == ".tmp") fs::remove(entry.path());
  }
  EXPECT_LT(with_half_a_shard, wanted());
}

TEST_F(ResumeTest, another_job_is_refused_and_changes_nothing) {
  const auto before = files("out.partial");
  fs::create_directory(dir_ / "out");
  const auto expect = [&](const std::string& message, const char* why) {
    EXPECT_EQ(message, str(dir_ / "out.partial", " is not a half-finished run of this job: ", why,
                           "; remove it, or choose another OUT"));
  };
  expect(refusal(source_, "out", {.scale = ScaleRule::kAbsmax}), "its recipe differs");
  const Status other_shards = convert(source_, "out", {}, 2, 3 << 20);
  expect(other_shards.error().message, "its division into files (--max-shard-mb) differs");
  expect(refusal(model_, "out"), "its source differs");
  fs::last_write_time(source_ + "/model.safetensors", fs::file_time_type::clock::now());
  expect(refusal(source_, "out"), "its source, written since, differs");
  EXPECT_EQ(files("out.partial"), before);
  EXPECT_TRUE(fs::exists(dir_ / "out"));
  dir_.write(str("out.partial/", kManifestName), "{");
  expect(refusal(source_, "out"), "its manifest is no JSON");
  fs::remove(str(dir_ / "out.partial/", kManifestName));
  expect(refusal(source_, "out"), "it has no manifest");
  // One that cannot be read says nothing of the run, which nobody should remove.
  fs::create_directory(str(dir_ / "out.partial/", kManifestName));
  EXPECT_EQ(refusal(source_, "out").find("remove it"), std::string::npos);
}

}  // namespace
}  // namespace glint
