// The planned memory of steps, against the memory that they take.
#include "runtime/memory_plan.h"

#include <numeric>

#include "base/ceil_div.h"
#include "base/memory.h"
#include "executor/harness.h"
#include "ops/testing/late_ops.h"
#include "rl/rollout_engine.h"
#include "runtime/rank_threads.h"
#include "runtime/ranks.h"
#include "runtime/serve_memory.h"

namespace glint {
namespace {

std::string golden(const std::string& name) {
  return str(GLINT_SOURCE_DIR, "/tests/golden/", name);
}

struct Loaded {
  std::unique_ptr<LoadedModel> model = {};
  std::unique_ptr<StepTrial> trial = {};
  TrialOptions options = {};
};

Loaded load_both(const std::string& dir) {
  auto model = LoadedModel::load({.dir = dir, .with_mtp = true}, best_backend().make(2));
  EXPECT_TRUE(model.ok()) << model.error().message;
  Loaded both = {.model = std::move(model).value()};
  Checkpoint checkpoint = Checkpoint::open(dir).value();
  both.options = {.format = formats_of(both.model->config(), checkpoint),
                  .with_mtp = both.model->has_mtp(),
                  .like = &both.model->backend()};
  both.trial = StepTrial::make(both.model->config(), both.options).value();
  return both;
}

// `count` sequences of `length` tokens in one step, after all but `each` of them.
void run_step_of(LoadedModel& model, int count, int each, int length) {
  const int pages_of_each = ceil_div(length, kPageSize);
  ASSERT_TRUE(model.reserve_pages(count * pages_of_each).ok());
  StepRows plan;
  for (int s = 0; s < count; ++s) {
    std::vector<PageId> pages(static_cast<std::size_t>(pages_of_each));
    std::iota(pages.begin(), pages.end(), s * pages_of_each);
    std::vector<TokenId> tokens(static_cast<std::size_t>(each), 1);
    for (int i = 0; i < each; ++i) tokens[static_cast<std::size_t>(i)] = 5 + (i * 7 + s) % 50;
    plan.add(length - each, tokens, pages, 1);
  }
  model.step(plan, {.routed = true});
}

class PlannedSteps : public testing::TestWithParam<std::string> {};

TEST_P(PlannedSteps, take_what_they_were_planned_to_take) {
  const std::string dir = GetParam() == "glm5-tiny" ? kModelDir : golden(GetParam());
  struct Shape {
    int sequences, each, length;
  };
  for (const Shape s : {Shape{1, 1, 60}, Shape{5, 1, 130}, Shape{2, 96, 128}, Shape{1, 500, 500}}) {
    const Loaded both = load_both(dir);
    if (s.length > both.model->config().max_position_embeddings) continue;
    run_step_of(*both.model, s.sequences, s.each, s.length);
    const std::int64_t planned = both.trial->run({.tokens = s.sequences * s.each,
                                                  .sequences = s.sequences,
                                                  .length = s.length,
                                                  .logit_rows = s.sequences,
                                                  .routed = true});
    const StepMemory used = both.model->used_memory();
    const std::string what = str(s.sequences, " x ", s.each, " at ", s.length);
    EXPECT_EQ(used.step, planned) << what;
    // Threads that no task of a small step came to have taken nothing.
    EXPECT_LE(used.scratch, both.trial->ops().scratch_bytes()) << what;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PlannedSteps,
                         testing::Values("glm5-tiny", "fp8_block", "nvfp4_modelopt", "odd",
                                         "glm52_sharing", "real_heads"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Weights, cache, and the largest step with its drafts.
TEST(MemoryPlan, is_within_two_per_cent_of_what_is_taken) {
  constexpr int kTokens = 512, kSequences = 4, kLength = 1024;
  const Loaded both = load_both(kModelDir);
  LoadedModel& model = *both.model;
  const MemoryPlan plan = plan_memory(*both.trial, model.config(), both.options,
                                      {.max_step_tokens = kTokens,
                                       .max_running = kSequences,
                                       .max_drafts = 1,
                                       .max_seq_len = kLength});
  EXPECT_EQ(plan.weight_bytes(), model.load_stats().held_bytes);
  ASSERT_TRUE(model.reserve_steps(plan.step).ok());
  EXPECT_EQ(model.used_memory().scratch, plan.step.scratch);
  run_step_of(model, kSequences, kTokens / kSequences, kLength);
  EXPECT_EQ(plan.page, page_bytes(model.config(), model.kv().options()));

  StepRows rows;  // the same again, as the MTP layer's
  std::vector<PageId> pages(kLength / kPageSize);
  std::iota(pages.begin(), pages.end(), 0);
  std::vector<std::int32_t> all(kTokens);
  std::iota(all.begin(), all.end(), 0);
  for (int s = 0; s < kSequences; ++s) {
    const std::vector<TokenId> tokens(kTokens / kSequences, 7);
    rows.add(kLength - kTokens / kSequences, tokens, pages, 0);
  }
  StepRows step = rows;
  for (RowSlice& slice : step.slices) slice.logit_rows = 2;
  model.step(step, {.routed = true});
  model.draft(rows, {.rows = all});
  model.logits_of({.rows = std::span(all).first(64)});

  const StepMemory used = model.used_memory();
  EXPECT_EQ(used.step, plan.step.step);
  EXPECT_EQ(used.draft, plan.step.draft);
  EXPECT_EQ(used.head, plan.step.head);
  EXPECT_EQ(used.scratch, plan.step.scratch);
  const std::int64_t cache = kSequences * (kLength / kPageSize) * plan.page;
  const auto planned = static_cast<double>(plan.weight_bytes() + plan.working_bytes() + cache);
  const auto taken = static_cast<double>(model.load_stats().placement.packed_bytes + cache +
                                         used.total() + model.rotary_table().size() * 4);
  EXPECT_NEAR(taken / planned, 1, 0.02) << taken << " taken, " << planned << " planned";
  // Reserved in one stretch each: nothing was allocated besides.
  EXPECT_LT(model.arena_bytes(), static_cast<std::size_t>(plan.step.total()) + 3 * (2 << 20));
}

TEST(MemoryPlan, a_rollout_has_the_seats_that_were_planned) {
  auto backend = std::make_unique<LateOps>(host_backend().make(2));
  Device& device = backend->device();
  const auto model = load_model(kModelDir, std::move(backend));
  const auto taken = [&](const auto& act) {
    const std::int64_t before = device.memory().available;
    EXPECT_TRUE(act().ok());
    return before - device.memory().available;
  };
  EngineHere engine(*model);
  constexpr int kLongest = 64;
  for (const int running : {2, 300}) {
    const auto begin = [&] { return engine.begin({.longest = kLongest, .running = running}); };
    taken(begin);  // room for steps, which the next session finds
    const std::int64_t all = taken(begin);
    const std::int64_t pages =
        taken([&] { return model->reserve_pages(model->kv().num_pages(), kLongest); });
    const MemoryPlan plan =
        plan_memory(*model,
                    {.max_step_tokens = 64, .max_running = running, .max_seq_len = kLongest})
            .value();
    EXPECT_NEAR(static_cast<double>(all - pages), static_cast<double>(plan.step.seats), 8 * 256);
  }
}

TEST(MemoryPlan, log_probabilities_of_all_tokens_are_in_it) {
  constexpr int kRunning = 80;  // more than a block's
  const auto model = load_model(kModelDir);
  const int all = static_cast<int>(model->config().vocab_size);
  std::vector<Request> requests(kRunning);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i] = {.id = i + 1,
                   .prompt = prompt_of(static_cast<int>(i), 10),
                   .max_tokens = 2,
                   .want = {.top_logprobs = all, .prompt_logprobs = all}};
  }
  const auto outcomes = Harness(*model, {.max_step_tokens = 1024}).run(requests);
  EXPECT_EQ(outcomes.at(80).logprobs[1].top.size(), static_cast<std::size_t>(all));
  const auto planned = [&](int max_logprobs) {
    const StepLimits limits = {.max_step_tokens = 1024,
                               .max_running = kRunning,
                               .max_logprobs = max_logprobs,
                               .max_seq_len = 64};
    return plan_memory(*model, limits).value().step.edits;
  };
  EXPECT_LE(model->used_memory().edits, planned(all));
  EXPECT_GT(model->used_memory().edits, planned(all) - planned(0));
}

TEST(MemoryPlan, room_for_steps_is_for_all_ranks_of_a_machine) {
  const StepLimits limits = {.max_step_tokens = 64, .max_running = 1, .max_seq_len = 64};
  const auto room = [&](int ranks) {
    auto model = LoadedModel::load({.dir = kModelDir, .ranks_here = ranks}, best_backend().make(2));
    return reserve(*model.value(), 4, limits);
  };
  EXPECT_TRUE(room(1).ok());
  const auto ranks = static_cast<int>(available_memory() >> 16);
  const std::string said = room(ranks).error().message;
  EXPECT_NE(said.find(str(" on each of ", ranks, " ranks, and ")), std::string::npos) << said;
}

TEST(MemoryPlan, of_glm5_takes_no_weights_and_little_time) {
  const ModelConfig config =
      read_config(str(GLINT_SOURCE_DIR, "/tests/data/configs/glm5.json")).value();
  const TrialOptions options = {.shape = {.tp = 8}, .format = formats_of(config, Release::kFp8)};
  const std::unique_ptr<StepTrial> trial = StepTrial::make(config, options).value();
  const MemoryPlan plan = plan_memory(
      *trial, config, options, {.max_step_tokens = 8192, .max_running = 256, .max_seq_len = 32768});
  const double gib = std::int64_t{1} << 30;
  EXPECT_NEAR(static_cast<double>(plan.weight_bytes()) / gib, 88.69, 0.005);
  EXPECT_EQ(plan.page, 64 * 100'152);
  EXPECT_GT(plan.working_bytes(), 0);
}

// Stages share the host's memory, and have a device each.
TEST(MemoryPlan, a_device_holds_the_largest_stage) {
  const MeshShape shape = {.pp = 3};
  const auto plan_on = [&](Backend& backend) {
    const ModelConfig config = read_config(str(kModelDir, "/config.json")).value();
    return plan_serve_memory(config, {.trial = {.shape = shape,
                                                .format = formats_of(config, Release::kBF16),
                                                .with_mtp = true,
                                                .like = &backend},
                                      .ranks_here = shape.pp,
                                      .limits = {.max_step_tokens = 64, .max_running = 4}})
        .value();
  };
  std::int64_t all = 0, most = 0;
  Ranks ranks(shape);
  for (int rank = 0; rank < shape.pp; ++rank) {
    const auto model = LoadedModel::load({.dir = kModelDir,
                                          .with_mtp = true,
                                          .shape = shape,
                                          .rank = rank,
                                          .mesh = ranks.mesh(rank)},
                                         best_backend().make(1));
    const std::int64_t held = model.value()->load_stats().held_bytes;
    all += held, most = std::max(most, held);
  }
  EXPECT_LT(all, shape.pp * most);
  LateOps device(best_backend().make(1));
  EXPECT_EQ(plan_on(device).weights, most);
  EXPECT_NEAR(static_cast<double>(plan_on(*best_backend().make(1)).weights),
              static_cast<double>(all), 8.0 * shape.pp);
}

// Stages with drafts, each on a backend of its own.
void load(Ranks& ranks, const std::function<std::unique_ptr<Backend>()>& make) {
  for (int rank = 0; rank < ranks.size(); ++rank) {
    ranks.add(LoadedModel::load({.dir = kModelDir,
                                 .with_mtp = true,
                                 .shape = ranks.shape(),
                                 .rank = rank,
                                 .mesh = ranks.mesh(rank)},
                                make())
                  .value());
  }
}

// Only the last has logits and drafts.
TEST(MemoryPlan, a_leader_makes_room_for_the_steps_of_every_stage) {
  const MeshShape shape = {.pp = 2};
  Ranks ranks(shape);
  load(ranks, [] { return best_backend().make(1); });
  const RankThreads followers(ranks);
  const StepLimits limits = {
      .max_step_tokens = 64, .max_running = 4, .max_drafts = 2, .max_seq_len = 256};
  ASSERT_TRUE(reserve(ranks.model(0), 4, limits).ok());
  for (int rank = 0; rank < shape.pp; ++rank) {
    LoadedModel& model = ranks.model(rank);
    const auto trial = StepTrial::make(model.config(), trial_options(model)).value();
    const StepMemory need = trial->memory(limits);
    EXPECT_GE(static_cast<std::int64_t>(model.arena_bytes()),
              need.step + need.draft + need.head + need.edits)
        << "stage " << rank;
  }
}

// They come to the first, which has them beside its own steps.
TEST(MemoryPlan, results_of_stages_are_counted_where_they_come_to) {
  const MeshShape shape = {.pp = 2};
  Ranks ranks(shape);
  load(ranks, [] { return std::make_unique<LateOps>(best_backend().make(1)); });
  const RankThreads followers(ranks);
  LoadedModel& leader = ranks.model(0);
  StepLimits limits = {
      .max_step_tokens = 64, .max_running = 4, .max_drafts = 2, .max_seq_len = 256};
  EXPECT_EQ(plan_memory(leader, limits).value().step.num_results, 2);
  limits.max_drafts = 0;
  const MemoryPlan plan = plan_memory(leader, limits).value();
  EXPECT_EQ(plan.step.num_results, 4);
  EXPECT_GE(plan.step.result, 4 * limits.max_running * leader.config().vocab_size);
  EXPECT_EQ(plan.working_bytes(3), 3 * plan.working_bytes() - 2 * plan.step.results());
  std::int64_t most = 0;
  for (int rank = 0; rank < shape.pp; ++rank) {
    const auto trial = StepTrial::make(leader.config(), trial_options(ranks.model(rank))).value();
    most = std::max(most, trial->memory(limits).step);
  }
  EXPECT_EQ(plan.step.step, most);
  const std::int64_t before = leader.ops().device().memory().available;
  ASSERT_TRUE(leader.reserve_steps(plan.step).ok());
  const std::int64_t taken = before - leader.ops().device().memory().available;
  EXPECT_GE(taken, plan.step.step + plan.step.head + plan.step.edits + plan.step.results());
}

}  // namespace
}  // namespace glint
