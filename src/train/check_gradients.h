// Gradients against differences of the loss: what moving a parameter really does, beside what its
// gradient says of it, on the weights that a checkpoint has.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "train/gradient_pass.h"
#include "train/trained_weights.h"

namespace glint {

// One parameter: some of its elements were moved, each by a 64th of itself, once in the direction
// in which the loss rises and once against it; where that does not agree, also by a 128th.
struct ParameterCheck {
  std::string name = {};
  double rounding = 1;     // of the losses; 1: of a mean over 60 tokens or more
  std::int64_t moved = 0;  // elements, in a random order, until the loss moves enough to be seen
  double predicted = 0;  // what the loss should change by: gradient times the difference of weights
  double measured = 0;

  // Too little to be told from rounding, in all of its elements.
  bool is_small() const;
  bool agrees() const;  // to 2 %
};

// Experts are chosen once and given; sequences are at most index_topk long, so that all keys are
// attended to: the loss is smooth but for these choices.
Result<std::vector<TrainSequence>> with_routes(LoadedModel& model, const TokenSequences& sequences);

// Chooses the draft layer's experts, for sequences whose other experts are given.
Status add_draft_routes(GradientPass& pass, std::vector<TrainSequence>& sequences,
                        std::int64_t batch_tokens);

// Checks each trained parameter. `parameters` holds the gradient of the mean cross-entropy of
// `sequences`, plus mtp_weight times that of the draft layer; weights are as they were when this
// returns. `on_parameter` is called after each; false ends the check with an error.
struct GradientCheckArgs {
  GradientPass& pass;
  LoadedModel& model;
  TrainedWeights& weights;
  Parameters& parameters;
  ThreadPool& pool;
  std::int64_t batch_tokens = 4096;
  double mtp_weight = 0;
};
Result<std::vector<ParameterCheck>> check_gradients(const GradientCheckArgs& args,
                                                    std::span<const TrainSequence> sequences,
                                                    const std::function<bool()>& on_parameter);

}  // namespace glint
