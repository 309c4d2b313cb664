// StepCosts: learns what a plain decode step and a prompt token cost, and says how many prompt
// tokens a step may take along without slowing the others down more than allowed.
//
//   seconds of a step = plain(decoding sequences) + prompt tokens * per_prompt_token
//
// Knows no clock: seconds come from the executor.
#pragma once

#include <array>

#include "engine/recent.h"

namespace glint {

struct StepShape {
  int num_decoding = 0;   // sequences that run one token, and drafts
  int prompt_tokens = 0;  // rows of all other slices
};

class StepCosts {
 public:
  // A step of this shape took so long.
  void record(const StepShape& shape, double seconds);

  // Prompt tokens for a step in which `num_decoding` sequences decode, so that it takes at most
  // `max_slowdown` times as long as without, or `unseen_seconds` if that is longer. At least
  // kMinPromptTokens, or prompts would never end; but now and then 0, to measure plain steps anew.
  // At most `max_tokens`, which is also the answer where nobody decodes or `max_slowdown` is 0.
  int prompt_budget(int num_decoding, double max_slowdown, double unseen_seconds,
                    int max_tokens) const;

  // Seconds of a step with so many decoding sequences and no prompt; 0 while unknown.
  double plain_seconds(int num_decoding) const;

  // On a GPU a few prompt tokens cost as much as hundreds, as all weights are read for both. Pieces
  // small enough for twice a step of 2 ms would make a prompt ten times as slow, and no reader sees
  // 20 ms.
  static constexpr double kUnseenSeconds = 0.020;
  static constexpr int kMinPromptTokens = 2;
  static constexpr int kUnknownBudget = 64;  // while a cost is not known
  static constexpr int kMeasureEvery = 64;   // steps with prompts before kPlainSteps without
  static constexpr int kPlainSteps = 3;

 private:
  std::array<Recent<7>, 32> plain_ = {};  // [i]: of [2^i, 2^(i+1)) sequences
  Recent<9> per_prompt_token_;
  int steps_with_prompts_ = 0;  // since the last plain step
  int plain_steps_due_ = 0;
};

}  // namespace glint
