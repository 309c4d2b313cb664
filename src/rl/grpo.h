// GRPO: the gradient of the loss of answers that were graded against each other. One round is
//
//   GroupRollouts::roll_out()  answers by the engine, rewards, advantages
//   prepare()       the engine's log-probabilities against those of the training pass, bit for bit,
//                   and what ratios are taken to
//   add_gradient()  once for each part of the batch that is a step of the optimiser's
//
// All of it is a function of weights, data, options and the seed: never of threads or time.
#pragma once

#include "rl/grpo_batch.h"

namespace glint {

struct GrpoOptions {
  int steps_of_round = 1;  // divides the answers of a round
  // Answers without advantage do not run for entropy and KL either; the mean stays that of all.
  bool removes_constant_groups = false;
  AnswerLoss::Options loss = {};
  // The mean cross-entropy of the draft layer, which learns from it alone, counts this much beside
  // the loss; 0: it does not learn.
  double mtp_loss = 0;
  float temperature = 1;             // of the rollouts
  std::int64_t batch_tokens = 8192;  // that go through the model together when training
  int parity_samples = 4;            // answers that each round verifies
  // How far log-probabilities of engine and trainer may be apart, as a mean of absolute
  // differences; 0: not by a bit. Else ratios are taken to the trainer's, weighed by the loss's
  // mismatch.
  double parity_gate = 0;
  GradientSource* reference = nullptr;  // of the model that the loss's KL is to
  GradientSource* answering =
      nullptr;  // of the weights that answer, if they are not those that learn
};

class Grpo {
 public:
  using OnPart = GradientSource::OnPart;

  // `pass` is of the weights that learn. Everything outlives this.
  Grpo(GradientSource& pass, const GrpoOptions& options);

  // Before the weights that answered change: verify(), and its result in the batch; then
  // set_old_log_probs().
  Status prepare(GrpoBatch& batch, const OnPart& on_part);

  // Compares some answers, others with each version of the weights; tokens of older weights are
  // left out. Fails if a bit differs, naming the first, or if they are farther apart than the gate.
  Result<Parity> verify(const GrpoBatch& batch, const OnPart& on_part);

  // Gives all answers what ratios are taken to: the engine's log-probabilities, or where a
  // temperature or an engine of another format makes others of them, those of a pass with the
  // weights that answered last. None where these are the ones that learn, in one step and without a
  // mismatch: but the engine's are given where older weights chose a token. And those of the
  // reference model, where the loss has its KL.
  Status set_old_log_probs(GrpoBatch& batch, const OnPart& on_part);

  // Adds the gradient of step number `step` of the round. Answers without advantage do not run,
  // where the loss has no other term, or none for them, and the draft layer does not learn.
  struct Sums {
    PolicySums policy = {};
    double entropy = 0;  // sum over the tokens that ran
    double mtp_nll = 0;  // of the draft layer, also a sum, of its tokens
    std::int64_t mtp_tokens = 0;
    std::int64_t answers = 0, tokens = 0;  // that taught; those of its prompt count with each
  };
  Result<Sums> add_gradient(const GrpoBatch& batch, int step, const OnPart& on_part);

 private:
  // Whether one step learns from the answers by the weights that gave them: all ratios are 1.
  bool learns_as_it_answered() const;
  GradientSource& answering() { return options_.answering ? *options_.answering : pass_; }

  GradientSource& pass_;
  const GrpoOptions options_;
};

}  // namespace glint
