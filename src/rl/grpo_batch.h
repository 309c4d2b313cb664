// A round's rollouts: answers to learn from, and what is told of them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rl/answer_loss.h"
#include "rl/rollout.h"

namespace glint {

// Answers to one prompt that are not all finished: they go on in the next round.
struct AnswerGroup {
  std::uint64_t at = 0;  // the prompt's number in the order of the run, which the draws depend on
  std::vector<Rollout> answers = {};

  bool finished() const;
  std::int32_t oldest_version(std::int32_t if_empty) const;
};

// Agreement of engine and trainer on some log-probabilities, and the means of these tokens.
struct Parity {
  std::int64_t tokens = 0, differ = 0;
  double difference = 0;  // absolute
  double kl = 0;          // of the engine's distribution to the trainer's, KlKind::kLowVar
  double ess_ratio = 1;   // of mismatch_ratio(), unlimited
  double entropy = 0;     // after the temperature
};

// These count all answers that were finished, those of groups that were replaced included.
struct AnswerCounts {
  std::int64_t tokens = 0, longest = 0, truncated = 0, prompt_tokens = 0, cached_tokens = 0;
  std::int64_t drafted = 0, accepted = 0;  // draft tokens
  std::int64_t turns = 0;
  std::int64_t repeating = 0;  // of which ends_in_repetition()
  std::int64_t groups = 0, groups_at_lowest = 0, groups_at_highest = 0;  // all at one extreme
  // Steps of weights between the tokens and the training on them, summed; and the most.
  std::int64_t staleness = 0, max_staleness = 0;
};

// One answer, as text.
struct AnswerSample {
  int line = 0;  // of the prompt in its file, from 1
  std::string prompt = {}, label = {}, answer = {};
  double reward = 0;
  bool truncated = false;
};

struct GrpoBatch {
  std::vector<GradedAnswer> answers = {};  // of one group one after another
  std::vector<double> rewards = {};        // of all answers that are counted
  AnswerCounts counts = {};
  // The best and the worst answer of the first group whose rewards differ; none if none do.
  std::vector<AnswerSample> samples = {};
  Parity parity = {};
  std::int32_t version = 0;        // of the weights that answered last
  std::uint64_t prompts_used = 0;  // new ones, of the order
  std::vector<AnswerGroup> begun = {};

  double mean_reward() const;
  double mean_length() const;  // tokens of an answer
};

struct GrpoEval {
  double reward = 0, response_tokens = 0, truncated = 0;  // means over answers
  std::int64_t answers = 0;
  std::vector<std::pair<int, double>> pass_rates = {};  // pass@k for k = 1, 2, 4 ... all samples
  std::vector<AnswerSample> samples = {};               // the first answer to each of some prompts
};

}  // namespace glint
