// Logprobs: the log-probabilities that requests want, of the tokens that they got and of their
// prompts. They are asked of the device when a step is launched, and told when it is read.
#pragma once

#include "runtime/loaded_model.h"
#include "runtime/readback.h"
#include "runtime/slice_run.h"

namespace glint {

// Rows of a prompt whose logits are there at once.
inline constexpr int kLogprobRows = 64;

// Log-probabilities of `rows` tokens, each with the `others` most likely ones.
struct AskedLogprobs {
  int rows = 0, others = 0;
  // Blocks, whose n tokens' results are on the device at once: [n] f32, [n] i32: ranks, [n, others]
  // i32: ids, and f32
  Readback values = {};

  // The n-th token's, with at most `most` others.
  TokenLogprob read(int n, int most) const;
};

class Logprobs {
 public:
  // Ids from `num_token_ids` on are padding and never among the most likely.
  Logprobs(LoadedModel& model, int num_token_ids) : model_(model), num_token_ids_(num_token_ids) {}

  // Asks for those of the prompts' tokens after the rows that ran in the last step.
  void ask_prompts(std::span<SliceRun> runs, AskedLogprobs& asked);
  // Asks for those of the `tokens` [R] that were drawn from the step's `logits` [R, V].
  void ask(std::span<const SliceRun> runs, const Tensor& logits, const Tensor& tokens,
           AskedLogprobs& asked);

  // Bytes of the scratch arena at most, where `rows` rows are drawn.
  static std::int64_t scratch_bytes(std::int64_t rows, std::int64_t others);

  // Gives `runs` what was asked for them.
  static void tell_prompts(std::span<SliceRun> runs, const AskedLogprobs& asked);
  // Gives `runs` the log-probabilities of the tokens that they have taken.
  static void tell(std::span<SliceRun> runs, const AskedLogprobs& asked);

 private:
  Tensor begin(AskedLogprobs& asked) const;
  TokenLogProbsArgs results_in(const Tensor& block) const;
  void ask_rows(int replica, int first, std::span<const TokenId> ids, int n,
                TokenLogProbsArgs args);

  LoadedModel& model_;
  const int num_token_ids_;
};

}  // namespace glint
