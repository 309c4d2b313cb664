// GradientSource: adds the gradient of a loss of given sequences to what is trained, by one rank
// (GradientPass) or by several (TrainRanks); and the losses that it is asked for.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "train/train_sequence.h"

namespace glint {

struct LossOptions {
  float temperature = 1;  // logits are divided by it; positive
  // The draft layer's mean cross-entropy counts this much beside the model's. Its gradient flows
  // into the model too. 0: the layer does not run.
  float mtp_weight = 0;
};

// Sums over the tokens that were predicted and whose weight is not 0: each sequence's all but the
// first, and for the draft layer all but the first two.
struct LossSums {
  double nll = 0, mtp_nll = 0;  // minus natural logarithms of probabilities, times the weights
  std::int64_t tokens = 0, mtp_tokens = 0;

  double mean() const { return nll / static_cast<double>(tokens); }
  double mtp_mean() const { return mtp_nll / static_cast<double>(mtp_tokens); }
};

// A loss of the caller's own, by the derivatives that it has at the log-probabilities and entropies
// that a pass has just computed.
class TokenLoss {
 public:
  virtual ~TokenLoss() = default;

  // Looks at tokens first, first + 1, ... of sequence number `sequence` of the call (`first` >= 1:
  // nothing predicts token 0), and writes the derivatives of the loss by each log-probability and
  // each entropy, both in nats and after the temperature; they are 0 before. A sequence comes in
  // one or more pieces, once each; several ranks may call at the same time.
  // log_probs[i] is NaN where a logit is no number.
  virtual void weigh(std::size_t sequence, std::int64_t first, std::span<const float> log_probs,
                     std::span<const float> entropies, std::span<float> d_log_probs,
                     std::span<float> d_entropies) = 0;
  // All that it has seen, as bytes for the same loss in another rank's process, which takes them in
  // as if it had seen them itself.
  virtual std::string tell_seen() const { return {}; }
  virtual void take_seen(std::string_view) {}
};

// The loss of one call: all scales are the caller's, so that calls add up to one gradient.
struct LossTerms {
  float temperature = 1;  // logits are divided by it; positive
  // The loss is scale * (sum of weight * -log p of the tokens) + mtp_scale * (the same of the draft
  // layer, which runs if this is not 0).
  double scale = 1, mtp_scale = 0;
  // The draft layer's gradient goes no further than the layer: not into the final states that it
  // reads, the embedding or the head.
  bool mtp_alone = false;
  TokenLoss* loss = nullptr;       // in place of the first term
  std::size_t first_sequence = 0;  // its number of the first sequence of the call
};

struct ScoreTerms {
  float temperature = 1;  // logits are divided by it; positive
  bool drafts = false;    // of the draft layer, too
};

class GradientSource {
 public:
  virtual ~GradientSource() = default;

  // Called after each of the parts of a batch; false ends the pass with an error.
  using OnPart = std::function<bool()>;
  // Makes room for batches of up to this shape ahead of the first one, or fails, naming what they
  // need. Without it each call makes room for its own before it begins.
  virtual Status reserve(const BatchShape& most) = 0;

  // Adds the gradient of `terms` to the parameters'. Sequences are cut into batches of at most
  // `batch_tokens` tokens, or of one longer sequence. One that predicts nothing adds nothing. With
  // `terms.loss` the sums are of the plain cross-entropy beside it. Fails, naming the sequence, on
  // tokens that the model does not have. After a failure gradients are worthless.
  virtual Result<LossSums> add(std::span<const TrainSequence> sequences, const LossTerms& terms,
                               std::int64_t batch_tokens, const OnPart& on_part = {}) = 0;
  // A forward pass alone: one result a sequence.
  virtual Result<std::vector<TokenScores>> score(std::span<const TrainSequence> sequences,
                                                 const ScoreTerms& terms, std::int64_t batch_tokens,
                                                 const OnPart& on_part = {}) = 0;

  // Adds the gradient of mean + mtp_weight * mtp_mean, where the means are over all tokens of
  // `sequences`. Fails as add(), and where nothing is predicted.
  Result<LossSums> run(const TokenSequences& sequences, const LossOptions& options,
                       std::int64_t batch_tokens, const OnPart& on_part = {});
};

// Sequences with nothing said of their tokens.
std::vector<TrainSequence> plain(const TokenSequences& sequences);
// Tokens that the loss is taken of: those from number `ahead` on whose weight is not 0.
std::int64_t count_targets(std::span<const TrainSequence> sequences, std::size_t ahead);

}  // namespace glint
