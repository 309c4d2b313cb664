// Options of `glint train grpo` for the answers of a round, and for the engine that gives them.
#pragma once

#include <string>

#include "base/result.h"

namespace glint {

// Answers of a round.
struct GrpoRolloutOptions {
  int num_rollout = 0, rollout_batch_size = 32, n_samples_per_prompt = 8;
  int rollout_max_response_len = 1024;
  double rollout_temperature = 1, rollout_top_p = 1;
  int rollout_top_k = 0, dynamic_sampling_rounds = 0;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Rollouts");
    v("num-rollout=N", num_rollout, "rounds in all");
    v("rollout-batch-size=N", rollout_batch_size, "prompts of a round");
    v("n-samples-per-prompt=N", n_samples_per_prompt, "answers to each: a group");
    v("rollout-max-response-len=N", rollout_max_response_len, "tokens of an answer at most");
    v("rollout-temperature=T", rollout_temperature, "above 0; training divides logits by it too");
    v("rollout-top-p=P", rollout_top_p,
      "as in serving; below 1 answers are drawn from another distribution than is trained");
    v("rollout-top-k=K", rollout_top_k, "the same; 0: all");
    v("dynamic-sampling-rounds=N", dynamic_sampling_rounds,
      "DAPO's dynamic sampling: groups whose rewards are all equal are replaced, by asking up to N "
      "times as many prompts; 0: they stay, and teach nothing");
  }
};

// The engine, beside the trainer.
struct GrpoEngineOptions {
  int max_num_seqs = 128;
  std::string spec;
  bool fp8_rollout = false, nvfp4_rollout = false, use_rollout_routing_replay = false;

  bool is_quantized() const { return fp8_rollout || nvfp4_rollout; }

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Engine");
    v("max-num-seqs=N", max_num_seqs, "answers that run at once");
    v("spec=mtp:K", spec,
      "let the model's MTP layer guess K tokens a step; answers and their log-probabilities stay "
      "the same, bit for bit");
    v("fp8-rollout", fp8_rollout,
      "answers come from a copy in FP8 (128 x 128 blocks), quantised anew each round as `glint "
      "quantize` does it; training stays as it is");
    v("nvfp4-rollout", nvfp4_rollout, "the same with experts in NVFP4");
    v("use-rollout-routing-replay", use_rollout_routing_replay,
      "training takes the experts that the engine chose (R3; slime's meaning)");
  }
};

}  // namespace glint
