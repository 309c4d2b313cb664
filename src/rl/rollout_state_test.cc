#include "rl/rollout_state.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

// As a checkpoint's file has it.
Json stored(const Json& json) { return parse_json(dump_json(json, JsonStyle::kIndent2)).value(); }

TEST(RolloutState, groups_come_back_bit_for_bit) {
  std::vector<AnswerGroup> groups(2);
  groups[0].at = std::uint64_t{1} << 63;
  groups[0].answers = {{.answer = {3, 1, 2},
                        .log_probs = {-0.1f, -1e-30f, -17.25f},
                        .versions = {4, 4, 5},
                        .chosen = {1, 1, 0},
                        .routes = {0, 7, 7},
                        .cached_tokens = 3},
                       {.finished = true, .truncated = true}};
  const auto back = answer_groups_of(stored(to_json(groups))).value();
  ASSERT_EQ(back.size(), 2u);
  EXPECT_EQ(back[0].at, groups[0].at);
  EXPECT_EQ(back[0].answers[0].answer, groups[0].answers[0].answer);
  EXPECT_EQ(back[0].answers[0].log_probs, groups[0].answers[0].log_probs);
  EXPECT_EQ(back[0].answers[0].versions, groups[0].answers[0].versions);
  EXPECT_EQ(back[0].answers[0].chosen, groups[0].answers[0].chosen);
  EXPECT_EQ(back[0].answers[0].routes, groups[0].answers[0].routes);
  EXPECT_TRUE(back[0].answers[1].finished && back[0].answers[1].truncated);
  EXPECT_TRUE(back[1].answers.empty());
}

TEST(RolloutState, a_batch_comes_back_bit_for_bit) {
  GrpoBatch batch = {.rewards = {0.1, 1.0 / 3}, .version = 7};
  batch.answers = {{.tokens = {.ids = {1, 2, 3}, .weights = {0, 1, 1}},
                    .num_prompt = 1,
                    .served_log_probs = {-0.3f, -2e-8f},
                    .mismatches = {0.7},
                    .advantage = -1.0 / 7,
                    .num_stale = 1}};
  batch.counts.longest = 9, batch.counts.repeating = 2;
  batch.samples = {{.line = 4, .prompt = "a \"b\"\n", .answer = "\xc3\xa9", .reward = 0.5}};
  batch.parity = {
      .tokens = 5, .difference = 1e-3, .kl = 1e-7, .ess_ratio = 0.9, .entropy = 1.0 / 3};
  const GrpoBatch back = grpo_batch_of(stored(to_json(batch))).value();
  EXPECT_EQ(back.rewards, batch.rewards);
  EXPECT_EQ(back.answers[0].tokens.weights, batch.answers[0].tokens.weights);
  EXPECT_EQ(back.answers[0].served_log_probs, batch.answers[0].served_log_probs);
  EXPECT_EQ(back.answers[0].mismatches, batch.answers[0].mismatches);
  EXPECT_EQ(back.answers[0].advantage, batch.answers[0].advantage);
  EXPECT_EQ(back.answers[0].num_stale, 1);
  EXPECT_EQ(back.counts.longest, 9);
  EXPECT_EQ(back.counts.repeating, 2);
  EXPECT_EQ(back.samples[0].prompt, batch.samples[0].prompt);
  EXPECT_EQ(back.samples[0].answer, batch.samples[0].answer);
  EXPECT_EQ(back.parity.difference, 1e-3);
  EXPECT_EQ(back.parity.kl, 1e-7);
  EXPECT_EQ(back.parity.ess_ratio, 0.9);
  EXPECT_EQ(back.parity.entropy, 1.0 / 3);
  EXPECT_EQ(back.version, 7);
}

TEST(RolloutState, a_state_without_the_newer_parts_of_parity_is_read) {
  GrpoBatch batch = {.version = 7};
  batch.parity = {.tokens = 5, .difference = 1e-3, .kl = 1, .ess_ratio = 0.5, .entropy = 2};
  Json json = to_json(batch);
  std::erase_if(json.as_object(), [](const auto& member) {
    return member.first == "parity_kl" || member.first == "parity_ess_ratio" ||
           member.first == "parity_entropy";
  });
  const Parity parity = grpo_batch_of(stored(json)).value().parity;
  EXPECT_EQ(parity.difference, 1e-3);
  EXPECT_EQ(parity.ess_ratio, 1);
}

TEST(RolloutState, what_is_wrong_is_named) {
  Json json = to_json(GrpoBatch());
  json.set("rewards", "1 x");
  EXPECT_NE(grpo_batch_of(json).error().message.find("\"rewards\""), std::string::npos);
  EXPECT_FALSE(grpo_batch_of(Json("text")).ok());
  EXPECT_FALSE(answer_groups_of(Json::Object{}).ok());
}

}  // namespace
}  // namespace glint
