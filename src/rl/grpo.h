// GRPO: groups of answers, graded against each other, and the gradient of their loss. One round is
//
//   roll_out()  answers by the engine, rewards, advantages
//   verify()    the engine's log-probabilities against those of the training pass, bit for bit
//   add_gradient(), once for each part of the batch that is a step of the optimiser's
//
// All of it is a function of weights, data, options and the seed: never of threads or time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rl/answer_loss.h"
#include "rl/prompt_data.h"
#include "rl/rewards/reward.h"
#include "rl/rollout.h"
#include "rl/run_page.h"
#include "text/tokenizer/tokenizer.h"
#include "train/row_order.h"

namespace glint {

struct AnswerToGrade {
  std::string prompt, response, label;
};
using RemoteGrader = std::function<Result<std::vector<double>>(const std::vector<AnswerToGrade>&)>;

struct GrpoOptions {
  int rollout_batch_size = 32;  // prompts of a round
  int n_samples_per_prompt = 8;
  int global_batch_size = 0;  // answers of a step; divides those of a round; 0: all of them
  RolloutOptions rollout = {};
  AnswerLoss::Options loss = {};
  bool std_normalization = true;
  // Groups whose rewards are all equal are replaced by other prompts', until the batch is full or
  // so many times its prompts were asked. 0: they stay, and teach nothing.
  int dynamic_sampling_rounds = 0;
  // Overlong shaping: how many tokens before the limit it begins, and what the limit itself costs.
  // 0: none.
  int overlong_margin = 0;
  double overlong_penalty = 1;
  std::int64_t batch_tokens = 8192;  // that go through the model together when training
  int parity_samples = 4;            // answers that each round verifies
  std::uint64_t seed = 42;
  // How far log-probabilities of engine and trainer may be apart, as a mean of absolute
  // differences; 0: not by a bit. Else ratios are taken to the trainer's, weighed by `mismatch`.
  double parity_gate = 0;
  MismatchOptions mismatch = {};
  GradientPass* reference = nullptr;  // of the model that the loss's KL is to
  RemoteGrader remote = {};           // grades rows that name no rule, in place of the rule
};

// Agreement of engine and trainer on some log-probabilities.
struct Parity {
  std::int64_t tokens = 0, differ = 0;
  double difference = 0;  // mean of the absolute ones
};

struct GrpoBatch {
  std::vector<GradedAnswer> answers;  // of one group one after another
  // These count all answers, those of groups that were replaced included.
  std::vector<double> rewards;
  std::int64_t answer_tokens = 0, longest_answer = 0, truncated = 0, prompt_tokens = 0;
  std::int64_t cached_tokens = 0, drafted_tokens = 0, accepted_drafts = 0;
  int groups = 0, groups_at_lowest = 0,
      groups_at_highest = 0;  // all answers at the batch's extreme
  std::uint64_t prompts_used = 0;
  // The best and the worst answer of the first group whose rewards differ; none if none do.
  std::vector<AnswerSample> samples = {};

  double mean_reward() const;
  double mean_length() const;  // tokens of an answer
};

struct GrpoEval {
  double reward = 0, response_tokens = 0, truncated = 0;  // means over answers
  std::int64_t answers = 0;
  std::vector<std::pair<int, double>> pass_rates = {};  // pass@k for k = 1, 2, 4 ... all samples
  std::vector<AnswerSample> samples = {};               // the first answer to each of some prompts
};

class Grpo {
 public:
  // false ends what runs, with kUnavailable.
  using OnTokens = OnRolloutTokens;

  // Everything outlives this; `reward` grades rows that name none themselves, null where another
  // program does.
  Grpo(LoadedModel& model, GradientPass& pass, const Tokenizer& tokenizer, const Reward* reward,
       const GrpoOptions& options);

  // Answers to the prompts from `position` on, in the order of the seed.
  Result<GrpoBatch> roll_out(const std::vector<TrainPrompt>& prompts, RowOrder& order,
                             std::uint64_t position, const OnTokens& on_tokens);

  // Compares some answers, others each round. Fails if a bit differs, naming the first, or if they
  // are farther apart than the gate.
  Result<Parity> verify(const GrpoBatch& batch, std::uint64_t round,
                        const GradientPass::OnPart& on_part);

  // Gives all answers what ratios are taken to: the engine's log-probabilities, or where a
  // temperature or an engine of another format makes others of them, those of a pass with the
  // weights that answered; and those of the reference model, where the loss has its KL.
  Status set_old_log_probs(GrpoBatch& batch, const GradientPass::OnPart& on_part);

  int steps_of_round() const;
  // Adds the gradient of step number `step` of the round. Answers without advantage do not run,
  // where the loss has no other term.
  struct Sums {
    PolicySums policy = {};
    double entropy = 0;                    // sum over the tokens that ran
    std::int64_t answers = 0, tokens = 0;  // that taught; those of its prompt count with each
  };
  Result<Sums> add_gradient(const GrpoBatch& batch, int step, const GradientPass::OnPart& on_part);

  // The mean reward of `samples` answers to each prompt. The same draws each time.
  Result<GrpoEval> evaluate(const std::vector<TrainPrompt>& prompts, int samples,
                            const RolloutOptions& rollout, const OnTokens& on_tokens);

 private:
  // One reward for each rollout; `rows` has the prompt of each.
  Result<std::vector<double>> grade(const std::vector<const TrainPrompt*>& rows,
                                    const std::vector<Rollout>& rollouts) const;
  std::string text_of(const Rollout& rollout) const;
  AnswerSample sample_of(const TrainPrompt& prompt, const Rollout& rollout, double reward) const;

  LoadedModel& model_;
  GradientPass& pass_;
  const Tokenizer& tokenizer_;
  const Reward* reward_;
  const GrpoOptions options_;
};

}  // namespace glint
