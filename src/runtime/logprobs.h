// Logprobs: the log-probabilities that requests want, of the tokens that they got and of their
// prompts.
#pragma once

#include "runtime/loaded_model.h"
#include "runtime/slice_run.h"

namespace glint {

class Logprobs {
 public:
  // Ids from `num_token_ids` on are padding and never among the most likely.
  Logprobs(LoadedModel& model, int num_token_ids) : model_(model), num_token_ids_(num_token_ids) {}

  // All tokens that `runs` were just given, in one call. `logits` of the step's sampling rows.
  void tell(std::span<SliceRun> runs, const Tensor& logits);
  // The prompt's tokens after the rows that ran. `hidden` of all of the step's rows.
  void tell_prompt(SliceRun& run, const Tensor& hidden);

 private:
  std::vector<TokenLogprob> of(const Tensor& logits, const std::vector<std::int32_t>& rows,
                               const std::vector<std::int32_t>& ids, int num_top);

  LoadedModel& model_;
  const int num_token_ids_;
};

}  // namespace glint
