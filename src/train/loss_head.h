// LossHead: the head of the model over rows that predict tokens: their log-probabilities, the loss
// of them, and its gradient. Some rows at a time, whose logits alone exist at once.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "model/glm.h"
#include "train/gradient_source.h"
#include "train/packed_rows.h"
#include "train/pass_context.h"

namespace glint {

class LossHead {
 public:
  // On the last stage; both outlive it.
  LossHead(PassContext& context, const Model& model) : context_(context), m_(model) {}

  // Values of tokens in their order.
  struct Scores {
    std::vector<float> log_probs = {}, entropies = {};  // after the temperature
    std::vector<float> served = {};                     // TokenScores::served, where asked for
  };
  // Scores of `tokens`, by the final states `hidden` [T, hidden] of all rows.
  Scores score(const Tensor& hidden, const LossRows& tokens, float temperature, bool served);

  // Sum of minus log-probabilities of `tokens`, times their weights. The gradient of terms.scale
  // times that, or of terms.loss, goes into the head's and, through the shadow and what is
  // recorded, into that of `hidden`.
  double add(const Tensor& hidden, const LossRows& tokens, const LossTerms& terms,
             const std::function<void(const Tensor& logits)>& on_logits = {});

 private:
  struct Chunk {
    std::int64_t first = 0, count = 0;  // rows
  };
  std::vector<Chunk> chunks(std::int64_t rows) const;

  // The product of this rank's part of the head, and the logits that it and the others' make.
  struct Logits {
    LinearArgs product = {};
    Tensor all = {};
  };
  Logits logits_of(const Tensor& predicting, const Chunk& rows);
  Scores scores_of(const Tensor& logits, const Tensor& targets, float temperature);
  // Log-probabilities as serving computes them.
  std::vector<float> served_of(const Tensor& logits, const Tensor& targets);
  // Minus the derivatives of the loss by log-probabilities and entropies.
  Scores weigh(const LossTerms& terms, const Scores& scores,
               std::span<const LossRows::Place> places);

  PassContext& context_;
  const Model& m_;
};

}  // namespace glint
