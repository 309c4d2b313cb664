// AnswerLoss: the loss of a batch of graded answers, for a GradientPass.
#pragma once

#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "rl/policy_loss.h"
#include "train/gradient_pass.h"

namespace glint {

// An answer of a rollout, as it is trained on.
struct GradedAnswer {
  TrainSequence tokens = {};                 // prompt, whose weights are 0, and answer
  std::int64_t num_prompt = 0;               // tokens of the prompt, at least 1
  std::vector<float> served_log_probs = {};  // of the answer's tokens, as the engine gave them
  // Log-probabilities that ratios are taken to: of the weights that answered, after the
  // temperature. Empty: those of the weights that learn.
  std::vector<float> old_log_probs = {};
  std::vector<float> ref_log_probs = {};  // of the reference model, if the loss has its KL
  // mismatch_ratio() of each, where engine and trainer compute differently; empty: 1 each.
  std::vector<double> mismatches = {};
  double advantage = 0;
  std::int64_t num_stale = 0;  // first tokens of the answer that older weights chose

  std::int64_t num_answer() const { return tokens.size() - num_prompt; }
  // Whether the loss is taken of the answer's token `t`, and of how many it is.
  bool teaches(std::size_t t) const {
    return tokens.weight(static_cast<std::size_t>(num_prompt) + t) != 0;
  }
  std::int64_t num_taught() const;
  // The elements of `values`, which has one a token of the answer, whose token teaches().
  template <class T>
  std::vector<T> taught(std::span<const T> values) const {
    std::vector<T> some;
    for (std::size_t t = 0; t < values.size(); ++t) {
      if (teaches(t)) some.push_back(values[t]);
    }
    return some;
  }
};

class AnswerLoss final : public TokenLoss {
 public:
  struct Options {
    PolicyLossOptions policy = {};
    double entropy_coef = 0;
    bool per_token = false;  // the mean over all tokens, in place of that over answers
  };

  // Answers are numbered as the sequences of the pass. The means are over a batch of
  // `batch_answers` answers with `batch_tokens` tokens that teach, of which these may be a part:
  // what teaches nothing need not run. Where the loss is GSPO's, `differences` are
  // mean_difference() of each. `answers` and what it names outlive this.
  AnswerLoss(const Options& options, std::span<const GradedAnswer* const> answers,
             std::int64_t batch_answers, std::int64_t batch_tokens,
             std::vector<double> differences = {});

  void weigh(std::size_t sequence, std::int64_t first, std::span<const float> log_probs,
             std::span<const float> entropies, std::span<float> d_log_probs,
             std::span<float> d_entropies) override;
  std::string tell_seen() const override;
  void take_seen(std::string_view bytes) override;

  // Sums over the tokens seen so far, piece by piece: their bits do not depend on the order.
  PolicySums sums() const;
  double entropy() const;

 private:
  const Options options_;
  const std::span<const GradedAnswer* const> answers_;
  const std::int64_t batch_answers_, batch_tokens_;
  const std::vector<double> differences_;
  using Place = std::pair<std::size_t, std::int64_t>;
  struct Seen {
    PolicySums sums = {};
    double entropy = 0;
  };
  std::mutex mutex_;
  // Sums of each piece, by its answer and first token: ranks may share an answer.
  std::map<Place, Seen> seen_;
};

}  // namespace glint
