#include "rl/run_page.h"

#include <gtest/gtest.h>

#include "base/str.h"

namespace glint {
namespace {

std::size_t count_of(const std::string& page, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = page.find(part, at)) != page.npos; at += part.size()) ++count;
  return count;
}

Json round(int number, double reward) {
  return Json::Object{{"round", number},
                      {"rollout/raw_reward", reward},
                      {"parity/tokens", 100},
                      {"rollout/zero_std/lowest", 0.25},
                      {"rollout/zero_std/highest", 0.125}};
}

TEST(RunPage, ShowsRoundsEvaluationsAndSamples) {
  std::vector<Json> metrics = {Json::Object{{"round", -1}, {"eval/reward", 0.25}}, round(0, 0.5),
                               round(1, -0.5), Json::Object{{"round", 1}, {"eval/reward", 0.75}}};
  AnswerSample sample = {.line = 3, .prompt = "1 < 2?", .label = "yes", .answer = "no & no\x01"};
  std::vector<Json> samples = {sample_line(sample, -1, true), sample_line(sample, 1, true)};
  sample.answer = "best one", sample.reward = 1, sample.truncated = true;
  samples.push_back(sample_line(sample, 1, false));
  sample.answer = "worst one", sample.reward = 0;
  samples.push_back(sample_line(sample, 1, false));
  const std::string page = to_html(
      {.model = "tiny", .rounds_done = 2, .rounds = 4, .seconds_left = 61}, metrics, samples);
  EXPECT_NE(page.find("Round 2 of 4; 1 min 1 s left."), page.npos);
  EXPECT_NE(to_html({.rounds_done = 2, .rounds = 4}, {}, {}).find("Round 2 of 4."), page.npos);
  EXPECT_NE(page.find("<b>0 of 200</b>"), page.npos);
  EXPECT_NE(page.find("<b>38 %</b><span>of groups teach nothing"), page.npos);
  EXPECT_NE(page.find("<title>after round 0: 0.25</title>"), page.npos);
  EXPECT_NE(page.find("<title>round 2: -0.5</title>"), page.npos);
  EXPECT_NE(page.find("<th>before</th><th>after round 2</th>"), page.npos);
  EXPECT_EQ(count_of(page, "no &amp; no\uFFFD<"), 2u);
  EXPECT_NE(page.find("1 &lt; 2?"), page.npos);
  EXPECT_NE(page.find("reward 1, cut</b>best one"), page.npos);
  EXPECT_LT(page.find("best one"), page.find("worst one"));
  // Nothing is fetched, and nothing asks again.
  EXPECT_EQ(page.find("http"), page.npos);
  EXPECT_NE(to_html({.refresh_seconds = 5}, metrics, {}).find("content=\"5\""), page.npos);
}

TEST(RunPage, LongRunsAreDrawnAsMeans) {
  std::vector<Json> metrics;
  for (int i = 0; i < 320; ++i) metrics.push_back(round(i, i % 2));
  metrics[1].set("train/entropy", 2.5);  // the others taught nothing
  metrics[1].set("rollout/entropy", 3.5);
  metrics[2].set("rollout/entropy", 1.5);
  const std::string page = to_html({}, metrics, {});
  EXPECT_NE(page.find("<title>round 1 to 2: 0.5</title>"), page.npos);
  EXPECT_NE(page.find("<title>round 319 to 320: 0.5</title>"), page.npos);
  EXPECT_NE(page.find("<title>round 2: 2.5</title>"), page.npos);
  EXPECT_NE(page.find("<title>round 3: 1.5</title>"), page.npos);
}

TEST(RunPage, OfALongRunFewSamplesStayInMemory) {
  std::vector<Json> samples;
  for (int i = 0; i < 200; ++i) {
    const AnswerSample sample = {.line = 1, .answer = str("answer ", i, ".")};
    samples.push_back(sample_line(sample, i - 1, true));
    for (int k = 0; k < 2; ++k) samples.push_back(sample_line(sample, i, false));
    keep_shown_samples(samples);
    EXPECT_LE(samples.size(), 16u + 2 * 3);
  }
  const std::string page = to_html({.model = "tiny"}, {}, samples);
  EXPECT_NE(page.find("<th>before</th><th>after round "), page.npos);
  EXPECT_NE(page.find("<th>after round 199</th></tr>"), page.npos);
  for (const int newest : {197, 198, 199}) {
    EXPECT_GE(count_of(page, str("answer ", newest, ".")), 2u);
  }
  EXPECT_EQ(page.find("answer 196."), page.npos);
  std::vector<std::int64_t> evals;
  for (const Json& sample : samples) {
    if (*sample.find("from") == Json("eval")) evals.push_back(sample.find("round")->as_int());
  }
  for (std::size_t i = 1; i < evals.size(); ++i) EXPECT_LE(evals[i] - evals[i - 1], 32) << i;
}

TEST(RunPage, ARunThatHasJustBegunIsAPage) {
  const std::string page = to_html({.model = "tiny", .rounds = 4}, {}, {});
  EXPECT_NE(page.find("Round 0 of 4."), page.npos);
  EXPECT_EQ(page.find("<svg"), page.npos);
}

}  // namespace
}  // namespace glint
