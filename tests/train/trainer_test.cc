// The trainer on small checkpoints: what it writes is what it computes with, and runs go on bit for
// bit.
#include "train/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/str.h"
#include "base/test_dir.h"
#include "base/thread_pool.h"
#include "model/backends_under_test.h"
#include "ops/testing/late_ops.h"
#include "train/small_checkpoint.h"
#include "train/testing.h"

namespace glint {
namespace {

namespace fs = std::filesystem;

const std::string kGoldens = str(GLINT_SOURCE_DIR, "/tests/golden/");
const std::string kTiny = str(GLINT_SOURCE_DIR, "/models/glm5-tiny");

std::unique_ptr<Trainer> open(const std::string& dir, std::unique_ptr<Backend> ops,
                              DType dtype = DType::kF32) {
  return Trainer::open({.model = {.dir = dir, .numbers = formats_in(dtype), .with_mtp = true}},
                       std::move(ops))
      .value();
}
std::unique_ptr<Trainer> open(const std::string& dir, DType dtype = DType::kF32, int threads = 2) {
  return open(dir, best_backend().make(threads), dtype);
}

// The same tokens whatever the model: small ids.
std::vector<TrainSequence> some_sequences(int step) {
  std::vector<TrainSequence> all(2);
  Random random(11, static_cast<std::uint64_t>(step));
  for (TrainSequence& sequence : all) {
    for (int t = 0; t < 20; ++t) sequence.ids.push_back(static_cast<TokenId>(random.below(60)));
  }
  return all;
}

void learn(Trainer& trainer, int steps) {
  for (int i = 0; i < steps; ++i) {
    const auto sequences = some_sequences(static_cast<int>(trainer.steps_done()));
    const LossTerms terms = {.scale = 1.0 / 38, .mtp_scale = 0.1 / 36};
    ASSERT_TRUE(trainer.pass().add(sequences, terms, 64).ok());
    const Result<StepReport> report = trainer.step(1e-3);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_GT(report.value().grad_norm, 0);
  }
}

std::vector<float> log_probs_of(Trainer& trainer) {
  return trainer.pass().score(some_sequences(99), {}, 64).value()[0].served;
}

TEST(Trainer, what_is_saved_computes_the_same_bits) {
  for (const char* const name : {"odd", "real_heads", "glm52_sharing"}) {
    SCOPED_TRACE(name);
    const TestDir out;
    const auto trainer = open(kGoldens + name);
    const std::vector<float> before = log_probs_of(*trainer);
    learn(*trainer, 2);
    const std::vector<float> after = log_probs_of(*trainer);
    EXPECT_FALSE(same_bits(before, after));
    ASSERT_TRUE(trainer->save(out.path(), Json::Object{{"at", 2}}).ok());
    EXPECT_EQ(Trainer::find_latest(out.path()).value(), out / "step-2");
    const auto again = open(out / "step-2");
    EXPECT_TRUE(same_bits(log_probs_of(*again), after));
    EXPECT_TRUE(same_bits(weights_of(*again), weights_of(*trainer)));
    // And another model takes the weights over from memory.
    ModelOptions options = trainer->model().options();
    options.dir = kGoldens + name;
    options.packing = Packing::kAlways;
    const auto other = LoadedModel::load(options, best_backend().make(1)).value();
    EXPECT_TRUE(other->update_weights(trainer->weights().checkpoint()).ok());
  }
}

// One whose memory the host may not read, and where everything is done as late as it may be.
TEST(Trainer, a_large_state_is_read_as_it_was_written) {
  const TestDir out;
  const auto trainer = open(small_checkpoint());
  const std::string answers((std::size_t{256} << 20) + 1, '1');
  ASSERT_TRUE(trainer->save(out.path(), answers).ok());
  const Result<Json> state = open(out / "step-0")->restore(out / "step-0");
  ASSERT_TRUE(state.ok()) << state.error().message;
  EXPECT_TRUE(state.value() == Json(answers));
}

TEST(Trainer, another_device_gives_the_bits_of_the_host) {
  for (const char* const name : {"odd", "glm52_sharing"}) {
    SCOPED_TRACE(name);
    const auto host = open(kGoldens + name);
    const auto late = open(kGoldens + name, std::make_unique<LateOps>(best_backend().make(2)));
    for (Trainer* const trainer : {host.get(), late.get()}) learn(*trainer, 2);
    EXPECT_TRUE(same_bits(weights_of(*host), weights_of(*late)));
    EXPECT_TRUE(same_bits(log_probs_of(*host), log_probs_of(*late)));
  }
}

TEST(Trainer, two_halves_are_the_whole) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const TestDir out;
    const auto whole = open(small_checkpoint(), dtype);
    learn(*whole, 2);
    ASSERT_TRUE(whole->save(out.path(), Json::Object{{"seed", 7}}).ok());
    learn(*whole, 2);
    const auto second = open(out / "step-2", dtype, 1);  // threads do not matter
    const Json state = second->restore(out / "step-2").value();
    EXPECT_EQ(state.find("seed")->as_int(), 7);
    EXPECT_EQ(second->steps_done(), 2);
    learn(*second, 2);
    EXPECT_TRUE(same_bits(weights_of(*second), weights_of(*whole)));
    ASSERT_TRUE(second->save(out.path(), {}).ok());
    EXPECT_EQ(read_file(out / "latest_checkpointed_iteration.txt").value(), "4\n");
  }
}

TEST(Trainer, frozen_weights_and_other_files_stay) {
  const TestDir out;
  const auto trainer = open(kTiny);
  learn(*trainer, 1);
  ASSERT_TRUE(trainer->save(out.path(), {}).ok());
  auto before = Checkpoint::open(kTiny).value();
  auto after = Checkpoint::open(out / "step-1").value();
  std::size_t frozen = 0;
  for (const StoredTensor& tensor : before.source().tensors()) {
    const StoredTensor* const now = after.source().find(tensor.name);
    ASSERT_NE(now, nullptr) << tensor.name;
    EXPECT_EQ(now->describe(), tensor.describe()) << tensor.name;
    const bool is_frozen = tensor.name.find(".indexer.") != std::string::npos ||
                           tensor.name.ends_with("e_score_correction_bias");
    frozen += is_frozen;
    if (is_frozen) {
      EXPECT_TRUE(std::ranges::equal(now->bytes, tensor.bytes)) << tensor.name;
    }
  }
  EXPECT_GT(frozen, 0u);
  for (const char* name : {"config.json", "tokenizer.json", "chat_template.jinja"}) {
    EXPECT_EQ(read_file(out / str("step-1/", name)).value(),
              read_file(str(kTiny, "/", name)).value());
  }
}

TEST(Trainer, leftovers_do_not_stand_in_the_way_and_changed_files_are_found) {
  const TestDir out;
  const auto trainer = open(kGoldens + "odd");
  learn(*trainer, 1);
  // Killed while it wrote, and after the rename before the tracker.
  for (const char* name : {"/step-1.partial", "/step-1"}) {
    fs::create_directories(out.path() + name);
    std::ofstream(str(out.path(), name, "/junk")) << "junk";
  }
  fs::create_directories(out / "step-7.partial");
  EXPECT_EQ(Trainer::find_latest(out.path()).value(), std::nullopt);
  ASSERT_TRUE(trainer->save(out.path(), {}).ok());
  EXPECT_FALSE(fs::exists(out / "step-1/junk"));
  EXPECT_FALSE(fs::exists(out / "step-7.partial"));

  const std::string tracker = out / "latest_checkpointed_iteration.txt";
  fs::remove(tracker);
  EXPECT_EQ(Trainer::find_latest(out.path()).value(), out / "step-1");
  ASSERT_TRUE(trainer->save(out.path(), {}).ok());
  EXPECT_EQ(read_file(tracker).value(), "1\n");

  fs::copy_file(kGoldens + "odd/model.safetensors", out / "step-1/model.safetensors",
                fs::copy_options::overwrite_existing);
  const auto changed = open(out / "step-1");
  const Result<Json> state = changed->restore(out / "step-1");
  ASSERT_FALSE(state.ok());
  EXPECT_NE(state.error().message.find("changed after it was written"), std::string::npos);
  std::ofstream(tracker) << "seven";
  EXPECT_NE(Trainer::find_latest(out.path()).error().message.find("seven"), std::string::npos);
  std::ofstream(tracker) << "7";
  EXPECT_NE(Trainer::find_latest(out.path()).error().message.find("step-7"), std::string::npos);
}

// Weights of 33 MiB, gradients of 66 MiB, and a state of 198 MiB of the optimiser's.
TEST(Trainer, memory_is_for_all_processes_of_a_machine) {
  const auto failure = [](std::int64_t free_for_each) {
    const auto here = static_cast<int>(available_memory() / free_for_each);
    const TrainPeers peers({}, self_comm(), here);
    std::vector<std::unique_ptr<Backend>> backends;
    backends.push_back(best_backend().make(2));
    const auto opened =
        Trainer::open({.model = {.dir = kTiny}, .peers = peers}, std::move(backends));
    const std::string said = opened.ok() ? "it fits" : opened.error().message;
    EXPECT_NE(said.find(str(" in each of ", here, " processes, and ")), std::string::npos) << said;
    return said.substr(0, said.find(" take"));
  };
  EXPECT_EQ(failure(1 << 20), "the weights");
  EXPECT_EQ(failure(48 << 20), "the gradients of 17275392 parameters");
  EXPECT_EQ(failure(120 << 20), "the optimiser's state of 17275392 parameters");
}

// kTiny with the name of another type in its header: whatever its numbers are then.
void write_tiny_in_f16(const std::string& to) {
  fs::create_directories(to);
  fs::copy_file(kTiny + "/config.json", to + "/config.json");
  std::string bytes = read_file(kTiny + "/model.safetensors").value();
  const std::string was = "\"BF16\"", now = "\"F16\" ";
  const std::size_t end = bytes.find("}}");
  for (std::size_t at = bytes.find(was); at < end; at = bytes.find(was, at))
    bytes.replace(at, was.size(), now);
  std::ofstream(to + "/model.safetensors", std::ios::binary) << bytes;
}

TEST(Trainer, memory_of_copies_is_for_all_processes_of_a_machine) {
  const TestDir folder;
  write_tiny_in_f16(folder.path());
  const auto here = static_cast<int>(available_memory() >> 20);
  const TrainPeers peers({}, self_comm(), here);
  const auto backends = [] {
    std::vector<std::unique_ptr<Backend>> one;
    one.push_back(best_backend().make(2));
    return one;
  };
  const auto expect_refusal = [&](const auto& result) {
    const std::string said = result.ok() ? "it fits" : result.error().message;
    EXPECT_NE(said.find("/model.safetensors: weights in F16, "), std::string::npos) << said;
    EXPECT_NE(said.find(str(" in each of ", here, " processes, and ")), std::string::npos) << said;
  };
  const ModelOptions model = {.dir = folder.path()};
  expect_refusal(TrainRanks::open(model, backends(), {}, {}, peers));
  const auto loaded = TrainRanks::open(model, backends());
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  expect_refusal(TrainedWeights::make(loaded.value()->model(), peers));
}

TEST(Trainer, memory_that_ends_in_a_pass_ends_the_pass) {
  struct Hungry final : TokenLoss {
    void weigh(std::size_t, std::int64_t, std::span<const float>, std::span<const float>,
               std::span<float>, std::span<float>) override {
      more_than_there_is.reserve(more_than_there_is.max_size());
    }
    std::vector<char> more_than_there_is;
  } loss;
  const auto trainer = open(small_checkpoint());
  EXPECT_EQ(trainer->pass().add(some_sequences(0), {.loss = &loss}, 64).error().message,
            "no memory is left for a batch; a smaller --batch-tokens needs less");
}

}  // namespace
}  // namespace glint
