// Options of `glint train grpo`, and how they become those of its parts.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "cli/grpo_rollout_options.h"
#include "cli/optimizer_options.h"
#include "cli/train_layout.h"
#include "cli/train_options.h"
#include "cli/train_processes.h"
#include "rl/group_rollouts.h"
#include "rl/grpo.h"

namespace glint {

// Prompts, and what grades the answers.
struct GrpoDataOptions {
  std::string prompt_data, input_key = "prompt", label_key = "label";
  bool apply_chat_template = false, rollout_shuffle = false;
  std::string rm_type;
  std::string rm_url, rm_command, reward_key;
  double rm_timeout = 120;
  int overlong_buffer_len = 0;
  double overlong_penalty_factor = 1;

  bool has_remote() const { return !rm_url.empty() || !rm_command.empty(); }

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Data");
    v("prompt-data=F.jsonl", prompt_data,
      "rows {\"prompt\": text or messages, \"label\": answer}; \"metadata\": {\"rm_type\": R} "
      "grades a row by a rule of its own; F@[a:b] takes some rows");
    v("input-key=NAME", input_key, "the member that holds the prompt");
    v("label-key=NAME", label_key, "the member that holds the label");
    v("apply-chat-template", apply_chat_template,
      "a prompt that is a text is what a user says; lists of messages always go through the "
      "template");
    v("rollout-shuffle", rollout_shuffle, "another order of the rows each epoch, by the seed");
    v.section("Rewards");
    v("rm-type=R", rm_type,
      "deepscaler, math, dapo, f1 or deterministic_random, each also with boxed_ before it "
      "(`glint train reward` tells what an answer gets); or remote_rm: --rm-url or --rm-command "
      "grades");
    v("rm-url=URL", rm_url,
      "of remote_rm: gets {\"prompt\", \"response\", \"label\"} of each answer by POST and answers "
      "with a number (slime's meaning)");
    v("rm-command=CMD", rm_command,
      "of remote_rm: a program, started once by the shell, that gets the same a line each and "
      "answers with a number a line");
    v("reward-key=NAME", reward_key,
      "the member that is the reward, where remote_rm answers with objects; of dapo: score "
      "(slime's meaning)");
    v("rm-timeout=S", rm_timeout,
      "seconds that remote_rm has for the answers of a round, and a tool for a call");
    v("overlong-buffer-len=N", overlong_buffer_len,
      "the last N tokens before the longest answer cost reward, linearly; 0: none do");
    v("overlong-penalty-factor=P", overlong_penalty_factor, "how much, at the longest answer");
  }
};

// The loss of their tokens.
struct GrpoLossOptions {
  std::string advantage_estimator = "grpo";
  bool disable_grpo_std_normalization = false, calculate_per_token_loss = false;
  bool remove_constant_reward_groups = false;
  double eps_clip = 0.2, eps_clip_high = 0.28, eps_clip_c = 0, entropy_coef = 0;
  double kl_loss_coef = 0, mtp_loss_scaling_factor = 0.1;
  bool enable_mtp_training = false;
  std::string kl_loss_type = "k1", ref_load;
  bool use_tis = false, use_icepop = false;
  double tis_clip = 2, tis_clip_low = 0;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Loss");
    v("advantage-estimator", advantage_estimator,
      "the policy loss: clipped ratios by token, by answer (gspo), or clipped weights (cispo)",
      {"grpo", "gspo", "cispo"});
    v("disable-grpo-std-normalization", disable_grpo_std_normalization,
      "advantages are not divided by the group's deviation (Dr.GRPO)");
    v("calculate-per-token-loss", calculate_per_token_loss,
      "the mean over all tokens instead of that over answers (DAPO)");
    v("remove-constant-reward-groups", remove_constant_reward_groups,
      "groups whose rewards are all equal do not count in entropy and KL either, and teach no "
      "drafts, which saves time (the Tinker cookbook's name)");
    v("eps-clip=E", eps_clip,
      "ratios below 1 - E are clipped; of cispo MiniMax-M1 clipped none: 1");
    v("eps-clip-high=E", eps_clip_high, "ratios above 1 + E are clipped");
    v("eps-clip-c=C", eps_clip_c, "dual clip: where the advantage is negative, too; 0: none");
    v("entropy-coef=C", entropy_coef,
      "a bonus for entropy; below 0 it costs: answers at temperature 1 become surer");
    v("kl-loss-coef=C", kl_loss_coef,
      "what the distance from a reference model costs, a token; 0: there is none in memory");
    v("kl-loss-type", kl_loss_type,
      "how it is estimated, with d = log p - log p of the reference: "
      "d, d^2 / 2, e^-d - 1 + d, or the last within limits (slime's meaning)",
      {"k1", "k2", "k3", "low_var_kl"});
    v("ref-load=DIR", ref_load, "the reference model (default: MODEL)");
    v("use-tis", use_tis,
      "a token's loss counts p of the trainer / p of the engine times, within the limits of "
      "--tis-clip (slime's meaning)");
    v("use-icepop", use_icepop, "the same, but 0 beyond the limits");
    v("tis-clip=C", tis_clip, "the upper limit (slime's meaning)");
    v("tis-clip-low=C", tis_clip_low, "the lower limit (slime's meaning)");
    v("enable-mtp-training", enable_mtp_training,
      "the draft layer learns from the answers, too, and nothing else by it: its guesses keep up "
      "with the model (slime's meaning)");
    v("mtp-loss-scaling-factor=W", mtp_loss_scaling_factor,
      "how much its mean cross-entropy counts (Megatron's meaning)");
  }
};

// Steps of the optimiser, and what is verified before them.
struct GrpoStepOptions {
  int global_batch_size = 0, num_steps_per_rollout = 0;
  OptimizerOptions optimizer;
  int batch_tokens = 8192, parity_samples = 4;
  double parity_gate = 0;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Optimiser");
    v("global-batch-size=N", global_batch_size,
      "answers of a step; divides those of a round (default: all of them, one step a round)");
    v("num-steps-per-rollout=N", num_steps_per_rollout,
      "instead: steps of a round, of equally many answers (slime's meaning)");
    optimizer.visit(v);
    v("batch-tokens=N", batch_tokens,
      "tokens that go through the model together when training: memory grows with it");
    v("parity-samples=N", parity_samples,
      "answers of each round whose log-probabilities are compared with the training pass's; "
      "all, if it has fewer");
    v("parity-gate=G", parity_gate,
      "how far they may be apart, as a mean of absolute differences; ratios are then taken to the "
      "training pass's; 0: not by a bit");
  }
};

// Evaluations and checkpoints.
struct GrpoResultOptions {
  std::string eval_prompt_data, eval_reward_key;
  int eval_interval = 0, n_samples_per_eval_prompt = 8;
  std::optional<double> eval_temperature, eval_top_p;
  std::optional<int> eval_top_k, eval_max_response_len;
  std::string save;
  int save_interval = 20;
  bool resume = false;
  std::uint64_t seed = 42;
  std::string tensorboard_dir;
  std::optional<int> port;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Evaluation");
    v("eval-prompt-data=F.jsonl", eval_prompt_data, "rows as of --prompt-data, never trained on");
    v("eval-interval=N", eval_interval,
      "rounds between evaluations; 0: before the first and after the last only");
    v("n-samples-per-eval-prompt=N", n_samples_per_eval_prompt, "answers to each");
    v("eval-reward-key=NAME", eval_reward_key, "as --reward-key (default: the same)");
    v("eval-temperature=T", eval_temperature,
      "0: the most likely token (default: --rollout-temperature)");
    v("eval-top-p=P", eval_top_p, "as --rollout-top-p (default: the same) (slime's meaning)");
    v("eval-top-k=K", eval_top_k, "as --rollout-top-k (default: the same) (slime's meaning)");
    v("eval-max-response-len=N", eval_max_response_len,
      "as --rollout-max-response-len (default: the same) (slime's meaning)");
    v.section("Result");
    v("save=DIR", save,
      "checkpoints DIR/step-N, DIR/metrics.jsonl, DIR/samples.jsonl and the page DIR/report.html");
    v("save-interval=N", save_interval, "rounds between checkpoints; the last is always saved");
    v("resume", resume, "go on from the newest checkpoint of DIR, if it has one, bit for bit");
    v("seed=N", seed, "of the order of prompts and of what is drawn");
    v("tensorboard-dir=DIR", tensorboard_dir, "event files (default: DIR/tensorboard of --save)");
    v("port=N", port, "serve the run as a page at 127.0.0.1, anew each round; 0: any free port");
  }
};

struct GrpoCommandOptions : GrpoDataOptions,
                            GrpoRolloutOptions,
                            GrpoAnswerOptions,
                            GrpoEngineOptions,
                            GrpoLossOptions,
                            GrpoStepOptions,
                            GrpoResultOptions {
  std::string model;
  TrainLayoutOptions layout;
  TrainProcessOptions processes;
  TrainRunOptions how;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("MODEL", model,
      "directory of a checkpoint in bf16 or f32, or an id in the Hugging Face cache");
    GrpoDataOptions::visit(v);
    GrpoRolloutOptions::visit(v);
    GrpoAnswerOptions::visit(v);
    GrpoEngineOptions::visit(v);
    GrpoLossOptions::visit(v);
    GrpoStepOptions::visit(v);
    GrpoResultOptions::visit(v);
    layout.visit(v);
    processes.visit(v);
    how.visit(v);
  }

  // Lines for people about options that have no meaning beside the others, or another one than in
  // the paper. After check().
  std::vector<std::string> notes() const;
  // Rounds and answers of a step, where others say them, for so many rows. After check().
  Status settle(std::int64_t rows);
  // Without what the model says: its stop tokens and vocabulary. `tell` gets lines while it runs.
  GroupOptions groups(std::function<void(const std::string&)> tell) const;
  GrpoEvalOptions eval() const;
  GrpoOptions grpo() const;  // without other models' passes
  double mtp_loss() const { return enable_mtp_training ? mtp_loss_scaling_factor : 0; }
  int answers_of_round() const { return rollout_batch_size * n_samples_per_prompt; }
  int steps_of_round() const { return answers_of_round() / global_batch_size; }  // after settle()
  std::int64_t num_steps() const;
  LearningRate learning_rate() const;
  // Options that a run may not change when it goes on.
  Json fixed_options() const;
};

Status check(const GrpoCommandOptions& options);

}  // namespace glint
