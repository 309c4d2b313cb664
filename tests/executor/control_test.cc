// Weights that change between steps, profiles, progress, and requests that fail.
#include <cstring>

#include "base/file.h"
#include "base/json.h"
#include "base/test_dir.h"
#include "checkpoint/memory_source.h"
#include "executor/harness.h"
#include "ops/testing/late_ops.h"

namespace glint {
namespace {

Request plain_request(RequestId id) {
  return {.id = id,
          .prompt = prompt_of(static_cast<int>(id), 40),
          .sampling = {.temperature = 0},
          .max_tokens = 10};
}

// The bundled model with some bytes of its files changed.
class Variant {
 public:
  Variant() {
    config_ = read_file(kModelDir + "/config.json").value();
    weights_ = read_file(kModelDir + "/model.safetensors").value();
  }

  void replace_in_config(const std::string& from, const std::string& to) {
    config_.replace(config_.find(from), from.size(), to);
  }
  void replace_in_header(const std::string& from, const std::string& to) {
    ASSERT_EQ(from.size(), to.size());
    weights_.replace(weights_.find(from), from.size(), to);
  }
  // change(value) for each bf16 of a tensor.
  template <class Change>
  void change(const std::string& tensor, Change&& change) {
    std::uint64_t header = 0;
    std::memcpy(&header, weights_.data(), 8);
    const Json json = parse_json(std::string_view(weights_).substr(8, header)).value();
    const Json::Array& offsets = json.find(tensor)->find("data_offsets")->as_array();
    for (std::int64_t at = offsets[0].as_int(); at < offsets[1].as_int(); at += 2) {
      std::uint16_t value = 0;
      char* const place = weights_.data() + 8 + header + at;
      std::memcpy(&value, place, 2);
      value = change(value);
      std::memcpy(place, &value, 2);
    }
  }
  const std::string& write() {
    dir_.write("config.json", config_);
    dir_.write("model.safetensors", weights_);
    return dir_.path();
  }

 private:
  const TestDir dir_;
  std::string config_, weights_;
};

std::uint16_t negated(std::uint16_t bf16) { return bf16 ^ 0x8000; }
std::uint16_t no_number(std::uint16_t) { return 0x7fc0; }

ExecutorCommand update(const std::string& dir) {
  return {.kind = ExecutorCommand::Kind::kUpdateWeights, .path = dir};
}

// Changes what the model says, in weights that are packed, in kv_b_proj and in vectors.
void disturb(Variant& variant) {
  variant.change("lm_head.weight", negated);
  variant.change("model.layers.1.self_attn.kv_b_proj.weight", negated);
  variant.change("model.layers.2.input_layernorm.weight", negated);
}

TEST(UpdateWeights, is_as_if_the_other_checkpoint_had_been_loaded) {
  for (const Packing packing : {Packing::kAlways, Packing::kNever}) {
    Variant variant;
    disturb(variant);
    const std::string& dir = variant.write();
    const auto load = [&](const std::string& from) {
      return LoadedModel::load({.dir = from, .with_mtp = true, .packing = packing},
                               best_backend().make(2))
          .value();
    };
    const auto other = load(dir), model = load(kModelDir);
    const std::vector<Request> requests = {plain_request(1), plain_request(2)};
    const auto expected = Harness(*other, {.max_drafts = 2}).run(requests);
    Harness before(*model, {.max_drafts = 2});
    const auto old = before.run(requests);
    ASSERT_NE(old.at(1).tokens, expected.at(1).tokens);

    const Status status = before.executor().control(update(dir));
    ASSERT_TRUE(status.ok()) << status.error().message;
    const auto now = Harness(*model, {.max_drafts = 2}).run(requests);
    for (const auto& [id, outcome] : expected) EXPECT_EQ(now.at(id).tokens, outcome.tokens);
    // And back.
    ASSERT_TRUE(before.executor().control(update(kModelDir)).ok());
    const auto again = Harness(*model, {.max_drafts = 2}).run(requests);
    for (const auto& [id, outcome] : old) EXPECT_EQ(again.at(id).tokens, outcome.tokens);
  }
}

TEST(UpdateWeights, recorded_steps_go_on_with_the_new_weights) {
  Variant variant;
  disturb(variant);
  const std::string& dir = variant.write();
  const std::vector<Request> requests = {plain_request(1), plain_request(2)};
  const auto other = load_model(dir, host_backend().make(2));
  const auto expected = Harness(*other, {}).run(requests);
  const auto late = load_model(kModelDir, std::make_unique<LateOps>(host_backend().make(2)));
  Harness harness(*late, {});
  late->use_graphs({.rows = {1, 4}});
  const GraphStats recorded = harness.executor().record_graphs(20 * kPageSize);
  ASSERT_GT(recorded.count, 0u);
  ASSERT_TRUE(harness.executor().control(update(dir)).ok());
  EXPECT_EQ(late->num_graphs(), recorded.count);
  expect_same(harness.run(requests), expected);
  EXPECT_EQ(late->num_graphs(), recorded.count);
}

TEST(UpdateWeights, may_come_from_memory) {
  Variant variant;
  disturb(variant);
  const std::string& dir = variant.write();
  const auto other = load_model(dir), model = load_model(kModelDir);
  const std::vector<Request> requests = {plain_request(1)};
  const auto expected = Harness(*other, {}).run(requests);

  const Checkpoint files = Checkpoint::open(dir).value();
  const auto tensors = files.source().tensors();
  const auto in_memory = [&](std::size_t count) {
    return Checkpoint(std::make_unique<MemorySource>(
        "the trainer", std::vector(tensors.begin(), tensors.begin() + count)));
  };
  const Status status = model->update_weights(in_memory(tensors.size()));
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(Harness(*model, {}).run(requests).at(1).tokens, expected.at(1).tokens);

  EXPECT_FALSE(model->update_weights(in_memory(tensors.size() - 1)).ok());
  EXPECT_EQ(Harness(*model, {}).run(requests).at(1).tokens, expected.at(1).tokens);
}

TEST(UpdateWeights, that_fail_leave_the_old_ones) {
  const auto model = load_model(kModelDir);
  const std::vector<Request> requests = {plain_request(1)};
  const auto old = Harness(*model, {}).run(requests);
  Harness harness(*model, {});
  const auto refused = [&](Variant& variant, const char* word) {
    const Status status = harness.executor().control(update(variant.write()));
    ASSERT_FALSE(status.ok()) << word;
    EXPECT_NE(status.error().message.find(word), std::string::npos) << status.error().message;
    EXPECT_EQ(Harness(*model, {}).run(requests).at(1).tokens, old.at(1).tokens) << word;
  };
  Variant config;
  disturb(config);
  config.replace_in_config("\"index_topk\": 256", "\"index_topk\": 128");
  refused(config, "another model");
  Variant missing;
  disturb(missing);
  missing.replace_in_header("model.layers.4.mlp.experts.15.down_proj.weight",
                            "model.layers.4.mlp.experts.15.down_prxj.weight");
  refused(missing, "experts.15.down_proj");
  // 16 bits each, of another kind: one that is computed with as f32, and one that is no weight.
  Variant half;
  disturb(half);
  half.replace_in_header("\"BF16\"", "\"F16\" ");
  refused(half, "not in the formats of the loaded ones");
  Variant integers;
  disturb(integers);
  integers.replace_in_header("\"BF16\"", "\"I16\" ");
  refused(integers, "I16");
  EXPECT_FALSE(harness.executor().control(update("/nowhere")).ok());
}

TEST(Executor, logits_that_are_no_numbers_fail_the_request_and_no_other) {
  Variant variant;
  variant.change("model.norm.weight", no_number);
  const auto model = load_model(variant.write());
  for (const int drafts : {0, 2}) {
    Harness broken(*model, {.max_drafts = drafts});
    const Outcome outcome = broken.run({plain_request(1)}).at(1);
    EXPECT_EQ(outcome.finished, FinishReason::kError);
    EXPECT_TRUE(outcome.tokens.empty());
  }
  // Ids that are in no vocabulary never reach the model.
  Request hostile = plain_request(2);
  hostile.prompt.own()[3] = 1 << 30;
  Request biased = plain_request(3);
  biased.sampling.logit_bias = {{-7, 1.0f}};
  const auto outcomes = run_all({plain_request(1), hostile, biased});
  EXPECT_EQ(outcomes.at(1).finished, FinishReason::kLength);
  EXPECT_EQ(outcomes.at(2).finished, FinishReason::kError);
  EXPECT_EQ(outcomes.at(3).finished, FinishReason::kError);
}

// Also on a device that repeats whole steps as graphs.
void expect_profile_of_steps(LoadedModel& model) {
  const TestDir dir;
  const std::string path = dir / "profile.json";
  Harness harness(model, {.max_drafts = 1});
  using Kind = ExecutorCommand::Kind;
  ModelExecutor& executor = harness.executor();
  EXPECT_FALSE(executor.control({.kind = Kind::kStopProfile}).ok());
  EXPECT_EQ(executor.control({.kind = Kind::kStartProfile}).error().message,
            "the profile has no file; name one, or a folder");
  EXPECT_FALSE(executor.control({.kind = Kind::kStartProfile, .path = "/nowhere/p.json"}).ok());
  ASSERT_TRUE(executor.control({.kind = Kind::kStartProfile, .path = path}).ok());
  EXPECT_FALSE(executor.control({.kind = Kind::kStartProfile, .path = path}).ok());
  harness.run({plain_request(1)});
  // Another place that cannot be written costs nothing of what was recorded.
  EXPECT_FALSE(executor.control({.kind = Kind::kStopProfile, .path = "/nowhere/p.json"}).ok());
  ASSERT_TRUE(executor.control({.kind = Kind::kStopProfile}).ok());
  const Json trace = read_json_file(path).value();
  std::map<std::string, int> counts;
  for (const Json& event : trace.find("traceEvents")->as_array()) {
    ++counts[event.find("name")->as_string()];
    EXPECT_GE(event.find("dur")->as_double(), 0);
  }
  const int steps = counts["embed"];
  EXPECT_GT(steps, 4);
  EXPECT_EQ(counts["dense_ffn"], steps);
  EXPECT_EQ(counts["sample"], steps);
  // Four layers of the model, and the MTP layer's rows and guesses.
  EXPECT_EQ(counts["moe"], 4 * steps + counts["mtp_in"]);
  EXPECT_GT(counts["mtp_in"], 0);
  EXPECT_EQ(executor.progress(), "idle");
  ASSERT_TRUE(executor.control({.kind = Kind::kStartProfile, .path = dir.path()}).ok());
  ASSERT_TRUE(executor.control({.kind = Kind::kStopProfile}).ok());
  EXPECT_TRUE(file_exists(dir / "glint_profile.json"));
}

TEST(Executor, a_profile_holds_the_operations_of_its_steps) {
  expect_profile_of_steps(tiny());
  const auto late = LoadedModel::load({.dir = kModelDir, .with_mtp = true},
                                      std::make_unique<LateOps>(host_backend().make(2)))
                        .value();
  Harness(*late, {.max_drafts = 1}).run({plain_request(1)});
  EXPECT_GT(late->num_graphs(), 0u);
  // A kernel that fails tells of its step.
  const std::string work = late->ops().device().work();
  EXPECT_TRUE(work.starts_with("step ") && work.ends_with(" tokens")) << work;
  expect_profile_of_steps(*late);
}

}  // namespace
}  // namespace glint
