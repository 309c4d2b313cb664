// A round of GRPO on the bundled model: what the engine says is what training computes, and the
// gradient is that of the formula.
#include "rl/grpo.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/str.h"
#include "model/backends_under_test.h"
#include "rl/group_rollouts.h"
#include "runtime/rank_threads.h"
#include "train/trainer.h"

namespace glint {
namespace {

const std::string kTiny = str(GLINT_SOURCE_DIR, "/models/glm5-tiny");

// A trainer, and an engine over the trainer's memory, as `glint train grpo` has them.
class GrpoTest : public testing::Test {
 protected:
  static ModelOptions model_options(DType dtype) {
    return {.dir = kTiny, .numbers = formats_in(dtype), .packing = Packing::kNever};
  }

  void open(DType dtype) {
    trainer = Trainer::open({.model = model_options(dtype)}, host_backend().make(1)).value();
    engine = LoadedModel::load(model_options(dtype), host_backend().make(1)).value();
    ASSERT_TRUE(engine->update_weights(trainer->weights().checkpoint()).ok());
    prompts.clear();
    for (const char* const text : {"once upon a time", "the capital of", "a fox and", "why does"}) {
      prompts.push_back({.ids = tokenizer.encode(text).value(), .label = text});
    }
  }

  GroupOptions groups() const {
    return {.rollout_batch_size = 3,
            .n_samples_per_prompt = 4,
            .rollout = {.max_tokens = 12,
                        .stop_ids = engine->generation().eos_token_ids,
                        .num_token_ids = tokenizer.vocab_size()},
            .seed = 3};
  }
  static GrpoOptions options() { return {.batch_tokens = 64, .parity_samples = 100}; }
  Grpo make(const GrpoOptions& with = options()) { return {trainer->pass(), with}; }

  Result<GrpoBatch> try_roll_out(const GroupOptions& with, RolloutStart start = {},
                                 const OnRolloutTokens& on_tokens = kGoOn) {
    RowOrder order(prompts.size(), 3, false);
    EngineHere here(*engine);
    return GroupRollouts(here, tokenizer, &reward, with)
        .roll_out(prompts, order, std::move(start), on_tokens);
  }
  GrpoBatch roll_out(Grpo& grpo, const GroupOptions& with, RolloutStart start = {}) {
    GrpoBatch batch = try_roll_out(with, std::move(start)).value();
    EXPECT_TRUE(grpo.set_old_log_probs(batch, {}).ok());
    return batch;
  }
  GrpoBatch roll_out(Grpo& grpo) { return roll_out(grpo, groups()); }

  std::vector<float> take_gradient() {
    const std::span<const float> flat = trainer->parameters().flat();
    std::vector<float> gradient(flat.begin(), flat.end());
    trainer->parameters().set_zero();
    return gradient;
  }

  static constexpr auto kGoOn = [](int) { return true; };
  const Tokenizer tokenizer = Tokenizer::open(kTiny).value();
  const Reward reward = Reward::named("deterministic_random").value();
  std::unique_ptr<Trainer> trainer;
  std::unique_ptr<LoadedModel> engine;
  std::vector<TrainPrompt> prompts;
};

TEST_F(GrpoTest, EngineAndTrainingAgreeBitForBitBeforeAndAfterAStep) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    open(dtype);
    for (const double temperature : {1.0, 0.7}) {
      GrpoOptions with = options();
      with.temperature = static_cast<float>(temperature);
      GroupOptions of_groups = groups();
      of_groups.rollout.temperature = temperature;
      Grpo grpo = make(with);
      const GrpoBatch batch = roll_out(grpo, of_groups);
      const Result<Parity> compared = grpo.verify(batch, {});
      ASSERT_TRUE(compared.ok()) << compared.error().message;
      EXPECT_EQ(compared.value().tokens, batch.counts.tokens);
      EXPECT_EQ(compared.value().differ, 0);
      ASSERT_TRUE(grpo.add_gradient(batch, 0, {}).ok());
      ASSERT_TRUE(trainer->step(1e-3).ok());
      ASSERT_TRUE(engine->update_weights(trainer->weights().checkpoint()).ok());
      // The old answers are of other weights now.
      EXPECT_FALSE(grpo.verify(batch, {}).ok());
    }
  }
}

TEST_F(GrpoTest, OneStepByTheWeightsThatAnsweredNeedsNoPassForItsRatios) {
  open(DType::kBF16);
  for (const PolicyLossKind kind : {PolicyLossKind::kGrpo, PolicyLossKind::kGspo}) {
    for (const double temperature : {0.7, 1.0}) {
      GrpoOptions with = options();
      with.temperature = static_cast<float>(temperature);
      with.loss.policy.kind = kind;
      GroupOptions of_groups = groups();
      of_groups.rollout.temperature = temperature;
      Grpo grpo = make(with);
      GrpoBatch batch = roll_out(grpo, of_groups);
      EXPECT_TRUE(batch.answers[0].old_log_probs.empty());
      const Grpo::Sums sums = grpo.add_gradient(batch, 0, {}).value();
      EXPECT_EQ(sums.policy.old_new_kl, 0);
      const std::vector<float> ratios_of_one = take_gradient();
      for (GradedAnswer& answer : batch.answers) {
        const auto scores = trainer->pass()
                                .score({&answer.tokens, 1}, {.temperature = with.temperature}, 4096)
                                .value();
        const std::vector<float>& all = scores[0].log_probs;
        answer.old_log_probs.assign(all.begin() + answer.num_prompt, all.end());
      }
      ASSERT_TRUE(grpo.add_gradient(batch, 0, {}).ok());
      EXPECT_EQ(take_gradient(), ratios_of_one);
    }
  }
}

TEST_F(GrpoTest, RatiosOfTokensThatOlderWeightsChoseAreToTheEngines) {
  open(DType::kBF16);
  Grpo grpo = make();
  GrpoBatch batch = roll_out(grpo);
  batch.answers[5].num_stale = 1;
  ASSERT_TRUE(grpo.set_old_log_probs(batch, {}).ok());
  for (const GradedAnswer& answer : batch.answers) {
    EXPECT_EQ(answer.old_log_probs, answer.served_log_probs);
  }
}

TEST_F(GrpoTest, OneChangedBitFailsWithItsPlace) {
  open(DType::kBF16);
  Grpo grpo = make();
  GrpoBatch batch = roll_out(grpo);
  float& value = batch.answers[5].served_log_probs[3];
  value = std::nextafter(value, -100.0f);
  const Result<Parity> compared = grpo.verify(batch, {});
  ASSERT_FALSE(compared.ok());
  const std::string expected =
      str("parity: 1 of ", batch.counts.tokens, " log-probabilities differ: that of token 3 ");
  EXPECT_TRUE(compared.error().message.starts_with(expected)) << compared.error().message;
}

TEST_F(GrpoTest, ExpertsOfTheEngineAreReplayed) {
  open(DType::kBF16);
  GroupOptions with = groups();
  with.rollout.routes = true;
  prompts[0].ids = tokenizer.encode(std::string(300, 'a')).value();  // of more than a cached page
  Grpo grpo = make();
  GrpoBatch batch = roll_out(grpo, with);
  EXPECT_GT(batch.counts.cached_tokens, 0) << "experts of cached tokens come from another answer";
  EXPECT_EQ(grpo.verify(batch, {}).value().differ, 0);
  const ModelConfig& config = engine->config();
  const auto a_token =
      static_cast<std::int64_t>(config.num_moe_layers()) * config.num_experts_per_tok;
  for (GradedAnswer& answer : batch.answers) {
    ASSERT_EQ(std::ssize(answer.tokens.routes), (answer.tokens.size() - 1) * a_token);
  }
  std::vector<std::int32_t>& routes = batch.answers[4].tokens.routes;
  std::reverse(routes.begin(), routes.end());
  EXPECT_FALSE(grpo.verify(batch, {}).ok());
}

TEST_F(GrpoTest, AGateLetsSmallDifferencesPassAndRatiosAreTheTrainers) {
  open(DType::kBF16);
  GrpoOptions with = options();
  with.parity_gate = 0.01;
  with.loss.policy.mismatch = {.kind = MismatchOptions::Kind::kTis, .low = 0, .high = 1.25};
  Grpo grpo = make(with);
  GrpoBatch batch = roll_out(grpo);
  const std::vector<float> trained = batch.answers[5].served_log_probs;
  batch.answers[5].served_log_probs[3] -= 0.5f;
  batch.answers[5].mismatches.clear();
  ASSERT_TRUE(grpo.set_old_log_probs(batch, {}).ok());
  EXPECT_NEAR(batch.answers[5].mismatches[3], std::exp(0.5), 1e-5);
  EXPECT_DOUBLE_EQ(batch.answers[5].mismatches[2], 1);
  EXPECT_NEAR(batch.answers[5].old_log_probs[3], trained[3], 1e-5);
  const Result<Parity> parity = grpo.verify(batch, {});
  ASSERT_TRUE(parity.ok()) << parity.error().message;
  EXPECT_EQ(parity.value().differ, 1);
  const auto n = static_cast<double>(parity.value().tokens);
  EXPECT_NEAR(parity.value().difference, 0.5 / n, 1e-6);
  const double w = std::exp(0.5);
  EXPECT_NEAR(parity.value().kl, (w - 1 - 0.5) / n, 1e-6);
  EXPECT_NEAR(parity.value().ess_ratio, (n - 1 + w) * (n - 1 + w) / (n * (n - 1 + w * w)), 1e-6);
  EXPECT_GT(parity.value().entropy, 0);
  EXPECT_LT(parity.value().entropy, std::log(tokenizer.vocab_size()));
  batch.answers[5].served_log_probs[3] -= 5;
  EXPECT_NE(grpo.verify(batch, {}).error().message.find("the gate is 0.01"), std::string::npos);
}

TEST_F(GrpoTest, GroupsAreGradedAgainstEachOther) {
  open(DType::kBF16);
  Grpo grpo = make();
  const GrpoBatch batch = roll_out(grpo);
  ASSERT_EQ(batch.answers.size(), 12u);
  EXPECT_EQ(batch.prompts_used, 3u);
  EXPECT_EQ(batch.counts.groups, 3);
  EXPECT_LT(batch.counts.groups_at_lowest + batch.counts.groups_at_highest, 3)
      << "choose another seed";
  for (std::size_t group = 0; group < 3; ++group) {
    double sum = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      const GradedAnswer& answer = batch.answers[group * 4 + k];
      sum += answer.advantage;
      EXPECT_EQ(answer.num_prompt, static_cast<std::int64_t>(prompts[group].ids.size()));
      EXPECT_LE(answer.num_answer(), 12);
    }
    EXPECT_NEAR(sum, 0, 1e-12);
  }
}

TEST_F(GrpoTest, AnswersDoNotDependOnHowManyRunAtOnce) {
  open(DType::kBF16);
  Grpo grpo = make();
  const GrpoBatch batch = roll_out(grpo);
  GroupOptions two = groups();
  two.rollout.max_running = 2;
  const GrpoBatch same = roll_out(grpo, two);
  for (std::size_t i = 0; i < batch.answers.size(); ++i) {
    EXPECT_EQ(same.answers[i].tokens.ids, batch.answers[i].tokens.ids);
    EXPECT_EQ(same.answers[i].served_log_probs, batch.answers[i].served_log_probs);
  }
}

// At the ratio 1 the slope of a token's loss is -A / (answers * tokens of its answer): the gradient
// is that of a cross-entropy with these weights.
TEST_F(GrpoTest, GradientIsThatOfTheFormula) {
  open(DType::kF32);
  Grpo grpo = make();
  const GrpoBatch batch = roll_out(grpo);
  trainer->parameters().set_zero();
  const Grpo::Sums sums = grpo.add_gradient(batch, 0, {}).value();
  const std::vector<float> gradient = take_gradient();
  std::vector<TrainSequence> weighted;
  std::int64_t taught = 0;
  for (const GradedAnswer& answer : batch.answers) {
    if (answer.advantage == 0) continue;
    taught += answer.num_answer();
    TrainSequence sequence = answer.tokens;
    sequence.weights.assign(sequence.ids.size(), 0);
    for (auto t = static_cast<std::size_t>(answer.num_prompt); t < sequence.ids.size(); ++t) {
      sequence.weights[t] =
          static_cast<float>(answer.advantage / (12.0 * static_cast<double>(answer.num_answer())));
    }
    weighted.push_back(std::move(sequence));
  }
  EXPECT_EQ(sums.policy.tokens, taught);
  EXPECT_NEAR(sums.policy.old_new_kl, 0, 1e-5) << "the weights that answered are those that learn";
  EXPECT_GT(sums.entropy, 0);
  ASSERT_TRUE(trainer->pass().add(weighted, {}, 64).ok());
  const std::vector<float> expected = take_gradient();
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    error += std::pow(double{gradient[i]} - expected[i], 2);
    norm += std::pow(double{expected[i]}, 2);
  }
  EXPECT_GT(norm, 0);
  EXPECT_LT(std::sqrt(error / norm), 1e-4);
}

TEST_F(GrpoTest, StepsShareTheRound) {
  open(DType::kBF16);
  GrpoOptions with = options();
  with.steps_of_round = 3;
  Grpo grpo = make(with);
  const GrpoBatch batch = roll_out(grpo);
  double tokens = 0, expected = 0;
  for (const GradedAnswer& answer : batch.answers) {
    expected += answer.advantage != 0 ? static_cast<double>(answer.num_answer()) : 0;
  }
  for (int step = 0; step < 3; ++step) {
    tokens += grpo.add_gradient(batch, step, {}).value().policy.tokens;
  }
  EXPECT_EQ(tokens, expected);
}

TEST_F(GrpoTest, DynamicSamplingReplacesGroupsThatTeachNothing) {
  open(DType::kBF16);
  GroupOptions with = groups();
  with.dynamic_sampling_rounds = 8;
  Grpo grpo = make();
  // Nothing is right of the third prompt: its group comes never.
  prompts[2].rm_type = "math";
  const GrpoBatch batch = roll_out(grpo, with);
  ASSERT_EQ(batch.answers.size(), 12u);
  EXPECT_GT(batch.prompts_used, 3u);
  for (const GradedAnswer& answer : batch.answers) EXPECT_NE(answer.advantage, 0);
  for (TrainPrompt& prompt : prompts) prompt.rm_type = "math";
  const Result<GrpoBatch> none = try_roll_out(with);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("after 24 prompts only 0 of 3 groups"), std::string::npos)
      << none.error().message;
}

// Answers to more prompts than are needed stop when enough are finished, and go on in the next
// round: with the same weights they are those of a run that never stopped, whatever ran at once.
TEST_F(GrpoTest, AnswersThatWereStoppedGoOn) {
  open(DType::kBF16);
  for (const bool routes : {false, true}) {
    GroupOptions all = groups();
    all.rollout.max_tokens = 40;
    all.rollout.stop_ids.push_back(tokenizer.encode(".").value()[0]);  // lengths differ
    all.rollout.routes = routes;
    all.rollout_batch_size = 6;
    Grpo grpo = make();
    const GrpoBatch whole = roll_out(grpo, all);
    GroupOptions part = all;
    part.rollout_batch_size = 2;
    part.over_sampling_batch_size = 6;
    part.partial = true;
    const auto expect_known = [&](const GrpoBatch& batch) {
      for (const GradedAnswer& answer : batch.answers) {
        const auto same = std::ranges::find_if(whole.answers, [&](const GradedAnswer& one) {
          return one.tokens.ids == answer.tokens.ids;
        });
        ASSERT_NE(same, whole.answers.end());
        EXPECT_EQ(same->served_log_probs, answer.served_log_probs);
        EXPECT_EQ(same->tokens.routes, answer.tokens.routes);
      }
    };
    for (const int running : {24, 5}) {
      part.rollout.max_running = running;
      const GrpoBatch first = roll_out(grpo, part);
      ASSERT_EQ(first.answers.size(), 8u);
      EXPECT_EQ(first.prompts_used, 6u);
      ASSERT_EQ(first.begun.size(), 4u);
      expect_known(first);
      int begun = 0, done = 0;
      for (const AnswerGroup& group : first.begun) {
        for (const Rollout& answer : group.answers) {
          begun += answer.size();
          done += answer.finished;
        }
      }
      EXPECT_GT(begun, 0);
      EXPECT_LT(done, 16) << "choose another seed";
      part.over_sampling_batch_size = 4;
      part.rollout_batch_size = 4;
      const GrpoBatch second = roll_out(
          grpo, part,
          {.position = first.prompts_used, .begun = first.begun, .version = 1, .trained_at = 1});
      EXPECT_EQ(second.prompts_used, 0u);
      EXPECT_TRUE(second.begun.empty());
      EXPECT_EQ(second.counts.staleness, begun);
      EXPECT_EQ(second.counts.max_staleness, 1);
      expect_known(second);
      EXPECT_EQ(grpo.verify(second, {}).value().tokens, second.counts.tokens - begun);
      part.over_sampling_batch_size = 6;
      part.rollout_batch_size = 2;
    }
  }
}

TEST_F(GrpoTest, TokensOfOlderWeightsAreTrainedOnUnlessTheyAreMasked) {
  open(DType::kBF16);
  GroupOptions part = groups();
  part.rollout.max_tokens = 40;
  part.rollout.stop_ids.push_back(tokenizer.encode(".").value()[0]);
  part.rollout_batch_size = 2;
  part.over_sampling_batch_size = 6;
  part.partial = true;
  Grpo grpo = make();
  const GrpoBatch first = roll_out(grpo, part);
  ASSERT_TRUE(grpo.add_gradient(first, 0, {}).ok());
  ASSERT_TRUE(trainer->step(1e-3).ok());
  ASSERT_TRUE(engine->update_weights(trainer->weights().checkpoint()).ok());
  const RolloutStart start = {
      .position = first.prompts_used, .begun = first.begun, .version = 1, .trained_at = 1};
  const auto taught_of = [&](const GrpoBatch& batch) {
    double tokens = 0;
    for (const GradedAnswer& answer : batch.answers) {
      tokens += answer.advantage != 0 ? static_cast<double>(answer.num_taught()) : 0;
    }
    EXPECT_EQ(grpo.add_gradient(batch, 0, {}).value().policy.tokens, tokens);
    return tokens;
  };
  const GrpoBatch second = roll_out(grpo, part, start);
  EXPECT_GT(second.counts.staleness, 0);
  const Result<Parity> compared = grpo.verify(second, {});
  ASSERT_TRUE(compared.ok()) << compared.error().message;
  EXPECT_LT(compared.value().tokens, second.counts.tokens);
  const double all = taught_of(second);
  part.mask_offpolicy = true;
  const GrpoBatch masked = roll_out(grpo, part, start);
  EXPECT_LT(taught_of(masked), all);
  // Beyond the bound they begin anew.
  part.max_staleness = 0;
  const GrpoBatch anew = roll_out(grpo, part, start);
  EXPECT_EQ(anew.counts.staleness, 0);
  EXPECT_EQ(grpo.verify(anew, {}).value().tokens, anew.counts.tokens);
}

// A replica has pages for its part of the answers. Where all are on one, some wait, and none fails.
TEST(RolloutReplicas, AnswersThatCrowdOnOneReplicaAreAllThere) {
  const MeshShape shape = {.dp = 2};
  Ranks ranks(shape);
  for (int rank = 0; rank < shape.dp; ++rank) {
    ranks.add(
        LoadedModel::load({.dir = kTiny, .shape = shape, .rank = rank, .mesh = ranks.mesh(rank)},
                          host_backend().make(1))
            .value());
  }
  const RankThreads followers(ranks);
  constexpr int kAnswers = 4, kPrompt = 60, kTokens = 200;
  EngineHere here(ranks.model(0));
  const RolloutSize size = {
      .longest = kPrompt + kTokens, .running = kAnswers, .requests = kAnswers};
  const std::unique_ptr<RolloutSession> session = here.begin(size).value();
  EXPECT_EQ(ranks.model(1).num_pages(), kAnswers / 2 * (pages_of(size.longest) + 1));
  for (RequestId id = 1; id <= kAnswers; ++id) {
    const std::vector<TokenId> prompt(kPrompt, static_cast<TokenId>(5 + id));
    // The first replica alone tells the keys that it selects.
    ASSERT_TRUE(session
                    ->submit({.id = id,
                              .prompt = prompt,
                              .max_tokens = kTokens,
                              .want = {.selected_keys = true}})
                    .ok());
  }
  int ended = 0, preemptions = 0;
  const Status status = session->run([&](std::vector<TokenEvent> step) -> Result<bool> {
    for (const TokenEvent& event : step) {
      if (!event.finished) continue;
      EXPECT_EQ(event.finished, FinishReason::kLength) << event.error;
      EXPECT_EQ(event.usage.completion_tokens, kTokens);
      preemptions += event.usage.preemptions;
      ++ended;
    }
    return ended < kAnswers;
  });
  EXPECT_TRUE(status.ok()) << status.error().message;
  EXPECT_GT(preemptions, 0);
}

TEST_F(GrpoTest, ASignalEndsRollouts) {
  open(DType::kBF16);
  int calls = 0;
  const auto ended = try_roll_out(groups(), {}, [&](int) { return ++calls < 3; });
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(calls, 3);
}

}  // namespace
}  // namespace glint
