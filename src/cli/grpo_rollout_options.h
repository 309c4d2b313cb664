// Options of `glint train grpo` for the answers of a round, and for the engine that gives them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace glint {

// Answers of a round.
struct GrpoRolloutOptions {
  int num_rollout = 0, num_epoch = 0, rollout_batch_size = 32, n_samples_per_prompt = 8;
  int rollout_max_response_len = 1024;
  double rollout_temperature = 1, rollout_top_p = 1;
  int rollout_top_k = 0, dynamic_sampling_rounds = 0, over_sampling_batch_size = 0;
  bool partial_rollout = false, mask_offpolicy_in_partial_rollout = false, async_rollout = false;
  std::optional<int> max_weight_staleness;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Rollouts");
    v("num-rollout=N", num_rollout, "rounds in all");
    v("num-epoch=N", num_epoch,
      "instead: N times as many as the rows have batches, rounded down (slime's meaning)");
    v("rollout-batch-size=N", rollout_batch_size, "prompts of a round");
    v("n-samples-per-prompt=N", n_samples_per_prompt, "answers to each: a group");
    v("rollout-max-response-len=N", rollout_max_response_len, "tokens of an answer at most");
    v("rollout-temperature=T", rollout_temperature, "above 0; training divides logits by it too");
    v("rollout-top-p=P", rollout_top_p,
      "as in serving; below 1 answers are drawn from another distribution than is trained");
    v("rollout-top-k=K", rollout_top_k, "the same; 0 or -1: all");
    v("dynamic-sampling-rounds=N", dynamic_sampling_rounds,
      "DAPO's dynamic sampling: groups whose rewards are all equal are replaced, by asking up to N "
      "times as many prompts; 0: they stay, and teach nothing");
    v("over-sampling-batch-size=N", over_sampling_batch_size,
      "ask so many prompts, and stop the others when the answers to --rollout-batch-size of them "
      "are finished; 0: no more than are needed (slime's meaning)");
    v("partial-rollout", partial_rollout,
      "answers that were stopped go on in the next round, with its weights; else they are lost "
      "(slime's meaning)");
    v("mask-offpolicy-in-partial-rollout", mask_offpolicy_in_partial_rollout,
      "tokens that older weights chose are not trained on (slime's meaning)");
    v("async-rollout", async_rollout,
      "one step off policy: the next round's answers are made while this one trains, by the "
      "weights that it began with, as slime's train_async.py does");
    v("max-weight-staleness=N", max_weight_staleness,
      "an answer that was begun by weights more than N rounds older than those that would train on "
      "it begins anew (default: it goes on)");
  }
};

// The form of an answer, and its turns.
struct GrpoAnswerOptions {
  std::string rollout_json_schema, rollout_regex, generate_tool_command;
  int generate_max_turns = 16;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Answers");
    v("rollout-json-schema=FILE", rollout_json_schema,
      "answers are JSON by this schema, after their reasoning, as `glint serve` makes them; the "
      "loss is that of the model's own probabilities, before anything is forbidden");
    v("rollout-regex=R", rollout_regex, "answers match this expression, likewise");
    v("generate-tool-command=CMD", generate_tool_command,
      "several turns: CMD, started once by the shell, reads a line {\"name\": F, \"arguments\": "
      "{...}} for each call of a tool (a row's \"tools\" say which there are) and writes a line, "
      "which the model reads; the loss leaves it out");
    v("generate-max-turns=N", generate_max_turns,
      "turns of an answer; calls in the last stay in it as text, and are not run");
  }
};

// The engine, beside the trainer.
struct GrpoEngineOptions {
  int max_num_seqs = 128;
  std::string spec;
  std::vector<std::string> rollout_external_engine_addrs;
  double rollout_external_timeout = 600;
  bool fp8_rollout = false, nvfp4_rollout = false, use_rollout_routing_replay = false;

  bool is_quantized() const { return fp8_rollout || nvfp4_rollout; }
  bool is_elsewhere() const { return !rollout_external_engine_addrs.empty(); }

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Engine");
    v("rollout-external-engine-addrs=HOST:PORT", rollout_external_engine_addrs,
      "these servers answer (`glint serve MODEL`, of this build), not an engine here; several "
      "share "
      "the requests; repeatable, or with commas (slime's meaning)");
    v("rollout-external-timeout=S", rollout_external_timeout,
      "seconds that all of them may be away, or take for new weights, before the run ends");
    v("max-num-seqs=N", max_num_seqs, "answers that run at once, on each server");
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
