// glint inspect and synth, as command lines.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "base/test_dir.h"
#include "cli/commands.h"
#include "cli/testing.h"

namespace glint {
namespace {

Outcome glint(const std::vector<std::string>& args) {
  const std::vector<Command> commands = {inspect_command(), synth_command()};
  return run_captured(commands, args);
}

const std::string kGlm5 = GLINT_SOURCE_DIR "/tests/data/configs/glm5.json";
const std::string kTiny = GLINT_SOURCE_DIR "/models/glm5-tiny";

class InspectTest : public testing::Test {
 protected:
  const TestDir dir_;
};

TEST_F(InspectTest, the_numbers_of_glm5_are_those_of_the_specification) {
  const Outcome text = glint({"inspect", kGlm5});
  EXPECT_EQ(text.exit_code, 0);
  for (const char* number : {"743,911,218,432", "753,864,139,008", "40,833,146,112",
                             "39,881,563,392", "100,152", "61,464", "101,436", "62,252"}) {
    EXPECT_NE(text.out.find(number), std::string::npos) << number << " in\n" << text.out;
  }
  // As the only file of a directory.
  std::filesystem::copy_file(kGlm5, dir_ / "config.json");
  const Json json = parse_json(glint({"inspect", dir_.path(), "--json"}).out).value();
  EXPECT_EQ(json.find("parameters")->find("main")->as_int(), 743'911'218'432);
  EXPECT_EQ(json.find("parameters")->find("active")->as_int(), 40'833'146'112);
  EXPECT_EQ(json.find("kv_bytes_per_token")->find("bf16")->as_int(), 100'152);
  EXPECT_EQ(json.find("tensors"), nullptr);
}

TEST_F(InspectTest, a_checkpoint_is_listed_by_role_and_format_and_verified) {
  const Outcome outcome = glint({"inspect", kTiny, "--verify"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("routed experts  bf16"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("every value is a finite number"), std::string::npos);
  EXPECT_EQ(outcome.out.find("missing"), std::string::npos);
}

TEST_F(InspectTest, a_tied_f16_checkpoint_is_complete_and_its_second_draft_layer_named) {
  const Outcome outcome = glint({"inspect", GLINT_SOURCE_DIR "/tests/golden/tied_f16"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* part : {"and an MTP layer (1 more, not used)", "attention       f16",
                           "routed experts  fp8", "known and not needed: 9"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " in\n" << outcome.out;
  }
  EXPECT_EQ(outcome.out.find("missing"), std::string::npos) << outcome.out;
}

TEST_F(InspectTest, a_synthetic_checkpoint_is_complete) {
  const std::string out = dir_ / "synth";
  const Outcome synth = glint({"synth", kTiny + "/config.json", out, "--format", "nvfp4"});
  ASSERT_EQ(synth.exit_code, 0) << synth.err;
  const Outcome inspect = glint({"inspect", out, "--verify", "--json"});
  EXPECT_EQ(inspect.exit_code, 0) << inspect.err;
  const Json json = parse_json(inspect.out).value();
  EXPECT_TRUE(json.find("missing")->as_array().empty());
  EXPECT_TRUE(json.find("extra")->as_array().empty());
  EXPECT_TRUE(json.find("non_finite")->as_array().empty());
  const Outcome again = glint({"synth", kTiny + "/config.json", out});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_EQ(again.err,
            str("glint: ", out, " exists; expected a directory that is empty or yet to be made\n"));
}

TEST_F(InspectTest, bad_files_are_refused_in_one_sentence) {
  const auto refusal = [&](const std::string& model) {
    const Outcome outcome = glint({"inspect", model});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    return outcome.err;
  };
  const std::string config = dir_ / "config.json";
  EXPECT_EQ(refusal(dir_.path()),
            str("glint: cannot open ", config, ": No such file or directory\n"));
  ASSERT_TRUE(write_file_atomic(config, "not json").ok());
  EXPECT_TRUE(refusal(dir_.path()).starts_with(str("glint: ", config, ": line 1, column 1: ")));
  std::filesystem::remove(config);
  std::filesystem::copy_file(kTiny + "/config.json", config);
  dir_.write("model.safetensors", "short");
  EXPECT_TRUE(refusal(dir_.path())
                  .starts_with(str("glint: ", dir_.path(), "/model.safetensors: the file is cut")));
}

TEST_F(InspectTest, weights_that_are_missing_are_told_and_end_it_with_2) {
  Json config = read_json_file(kTiny + "/config.json").value();
  config.set("vocab_size", 1024);
  config.set("eos_token_id", 1);
  config.set("num_hidden_layers", 2);
  dir_.write("config.json", dump_json(config));
  const std::string out = dir_ / "synth";
  ASSERT_EQ(glint({"synth", dir_ / "config.json", out}).exit_code, 0);
  config.set("num_hidden_layers", 4);
  ASSERT_TRUE(write_file_atomic(out + "/config.json", dump_json(config)).ok());
  const Outcome outcome = glint({"inspect", out, "--json"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_FALSE(parse_json(outcome.out).value().find("missing")->as_array().empty());
  EXPECT_TRUE(outcome.err.starts_with(str("glint: ", out, ": tensor \"model.layers.3.")))
      << outcome.err;
  EXPECT_NE(outcome.err.find(" is missing"), std::string::npos) << outcome.err;
}

TEST_F(InspectTest, a_draft_layer_that_lacks_weights_is_a_warning) {
  std::filesystem::copy_file(kTiny + "/config.json", dir_ / "config.json");
  std::string weights = read_file(kTiny + "/model.safetensors").value();
  const std::string_view name = "model.layers.5.hnorm.weight";
  weights[weights.find(name) + name.size() - 1] = 's';  // another tensor in its place
  dir_.write("model.safetensors", weights);
  const Outcome outcome = glint({"inspect", dir_.path()});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.err.find("warning: no drafts (--spec): "), std::string::npos) << outcome.err;
}

TEST_F(InspectTest, verify_names_file_and_tensor_of_a_nan) {
  std::filesystem::copy_file(kTiny + "/config.json", dir_ / "config.json");
  std::filesystem::copy_file(kTiny + "/model.safetensors", dir_ / "model.safetensors");
  const std::string path = dir_ / "model.safetensors";
  std::string bytes = read_file(path).value();
  bytes.replace(bytes.size() - 2, 2, "\xc0\x7f");
  ASSERT_TRUE(write_file_atomic(path, bytes).ok());
  EXPECT_EQ(glint({"inspect", dir_.path()}).exit_code, 0);
  EXPECT_EQ(glint({"inspect", dir_.path(), "-t", "2"}).err, "glint: --threads needs --verify\n");
  const Outcome verified = glint({"inspect", dir_.path(), "--verify"});
  EXPECT_EQ(verified.exit_code, 2);
  EXPECT_TRUE(verified.err.starts_with(str("glint: ", path, ": tensor \"model."))) << verified.err;
  EXPECT_NE(verified.err.find("holds 1 value that is NaN or infinite"), std::string::npos);
}

}  // namespace
}  // namespace glint
