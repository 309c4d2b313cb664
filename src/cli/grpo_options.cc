#include "cli/grpo_options.h"

#include <algorithm>

#include "base/str.h"
#include "cli/external_engines.h"
#include "cli/generate_options.h"
#include "cli/option_checks.h"
#include "cli/remote_reward.h"
#include "net/server_url.h"

namespace glint {
namespace {

constexpr std::int64_t kMostRounds = 10'000'000;

Status check_rollouts(const GrpoCommandOptions& o) {
  if (o.num_epoch != 0 && o.num_rollout != 0) {
    return invalid("give --num-rollout or --num-epoch, not both");
  }
  GLINT_TRY_STATUS(check_range<std::int64_t>(o.num_epoch != 0 ? "num-epoch" : "num-rollout",
                                             o.num_epoch != 0 ? o.num_epoch : o.num_rollout, 1,
                                             kMostRounds));
  GLINT_TRY_STATUS(check_range<std::int64_t>("rollout-batch-size", o.rollout_batch_size, 1, 65536));
  GLINT_TRY_STATUS(
      check_range<std::int64_t>("n-samples-per-prompt", o.n_samples_per_prompt, 2, 1024));
  GLINT_TRY_STATUS(check_range<std::int64_t>("rollout-max-response-len", o.rollout_max_response_len,
                                             1, 1 << 24));
  GLINT_TRY_STATUS(check_range<std::int64_t>("max-num-seqs", o.max_num_seqs, 1, 65536));
  GLINT_TRY_STATUS(check_range("rollout-temperature", o.rollout_temperature, 0.01, 100));
  GLINT_TRY_STATUS(check_range("rollout-top-p", o.rollout_top_p, 1e-6, 1));
  GLINT_TRY_STATUS(check_range<std::int64_t>("rollout-top-k", o.rollout_top_k, -1, 1 << 24));
  GLINT_TRY_STATUS(
      check_range<std::int64_t>("dynamic-sampling-rounds", o.dynamic_sampling_rounds, 0, 1000));
  GLINT_TRY_STATUS(check_range<std::int64_t>("overlong-buffer-len", o.overlong_buffer_len, 0,
                                             o.rollout_max_response_len));
  GLINT_TRY_STATUS(check_range("overlong-penalty-factor", o.overlong_penalty_factor, 0, 1000));
  const int answers = o.answers_of_round();
  if (o.global_batch_size < 0 || (o.global_batch_size > 0 && answers % o.global_batch_size != 0)) {
    return invalid(str("--global-batch-size is ", o.global_batch_size, "; it must divide the ",
                       answers, " answers of a round"));
  }
  const int steps = o.num_steps_per_rollout;
  if (steps < 0 || (steps > 0 && answers % steps != 0)) {
    return invalid(str("--num-steps-per-rollout is ", steps, "; it must divide the ", answers,
                       " answers of a round"));
  }
  if (steps > 0 && o.global_batch_size > 0 && steps * o.global_batch_size != answers) {
    return invalid(str("--num-steps-per-rollout ", steps, " of the ", answers,
                       " answers of a round is --global-batch-size ", answers / steps, ", not ",
                       o.global_batch_size, "; leave one of them out"));
  }
  GLINT_TRY_STATUS(check_range<std::int64_t>("parity-samples", o.parity_samples, 1, 1 << 26));
  GLINT_TRY_STATUS(check_range<std::int64_t>("eval-interval", o.eval_interval, 0, 1 << 30));
  GLINT_TRY_STATUS(
      check_range<std::int64_t>("n-samples-per-eval-prompt", o.n_samples_per_eval_prompt, 1, 1024));
  const GrpoEvalOptions eval = o.eval();
  GLINT_TRY_STATUS(check_range("eval-temperature", eval.temperature, 0, 100));
  GLINT_TRY_STATUS(check_range("eval-top-p", eval.top_p, 1e-6, 1));
  GLINT_TRY_STATUS(check_range<std::int64_t>("eval-top-k", o.eval_top_k.value_or(0), -1, 1 << 24));
  GLINT_TRY_STATUS(check_range<std::int64_t>("eval-max-response-len", eval.max_tokens, 1, 1 << 24));
  if (o.port) {
    GLINT_TRY_STATUS(check_range<std::int64_t>("port", *o.port, 0, 65535));
  }
  return check_range<std::int64_t>("save-interval", o.save_interval, 0, 1 << 30);
}

// Answers that weights other than those that learn have given.
Status check_staleness(const GrpoCommandOptions& o) {
  if (o.over_sampling_batch_size != 0 && o.over_sampling_batch_size <= o.rollout_batch_size) {
    return invalid(str("--over-sampling-batch-size is ", o.over_sampling_batch_size,
                       "; it asks more prompts than --rollout-batch-size ", o.rollout_batch_size,
                       ", or leave it out"));
  }
  if (o.partial_rollout && o.over_sampling_batch_size == 0) {
    return invalid(
        "--partial-rollout goes on with answers that were stopped, and none are without "
        "--over-sampling-batch-size");
  }
  if (o.mask_offpolicy_in_partial_rollout && !o.partial_rollout) {
    return invalid("--mask-offpolicy-in-partial-rollout needs --partial-rollout");
  }
  if (!o.max_weight_staleness) return Ok{};
  if (!o.partial_rollout) {
    return invalid(
        "--max-weight-staleness bounds how old answers of --partial-rollout get; without it none "
        "is more than a round old");
  }
  return check_range<std::int64_t>("max-weight-staleness", *o.max_weight_staleness,
                                   o.async_rollout ? 1 : 0, 1 << 30);
}

Status check_answers(const GrpoCommandOptions& o) {
  if (!o.rollout_json_schema.empty() && !o.rollout_regex.empty()) {
    return invalid("give --rollout-json-schema or --rollout-regex, not both");
  }
  if (o.generate_tool_command.empty()) return Ok{};
  if (!o.rollout_json_schema.empty() || !o.rollout_regex.empty()) {
    return invalid(
        "--generate-tool-command lets answers call tools, which no schema or expression "
        "of an answer allows; give one of them");
  }
  if (o.over_sampling_batch_size > 0) {
    return invalid(
        "--generate-tool-command and --over-sampling-batch-size exclude each other: "
        "answers of several turns are not stopped between them");
  }
  return check_range<std::int64_t>("generate-max-turns", o.generate_max_turns, 1, 1000);
}

// Servers answer.
Status check_external(const GrpoCommandOptions& o) {
  if (!o.is_elsewhere()) return Ok{};
  GLINT_TRY_STATUS(
      server_origins(o.rollout_external_engine_addrs).in("--rollout-external-engine-addrs"));
  GLINT_TRY_STATUS(check_range("rollout-external-timeout", o.rollout_external_timeout, 1, 1e6));
  const auto refuse = [](bool given, const char* name, const char* why) -> Status {
    if (!given) return Ok{};
    return invalid(str("--", name, " does not go with --rollout-external-engine-addrs: ", why));
  };
  GLINT_TRY_STATUS(refuse(!o.spec.empty(), "spec", "give it to the servers"));
  const char* const grammar = "only an engine here has the form of an answer after its reasoning";
  GLINT_TRY_STATUS(refuse(!o.rollout_json_schema.empty(), "rollout-json-schema", grammar));
  return refuse(!o.rollout_regex.empty(), "rollout-regex", grammar);
}

// How engine and trainer may differ, and what corrects it.
Status check_corrections(const GrpoCommandOptions& o) {
  GLINT_TRY_STATUS(check_range("kl-loss-coef", o.kl_loss_coef, 0, 1000));
  GLINT_TRY_STATUS(check_range("mtp-loss-scaling-factor", o.mtp_loss_scaling_factor, 1e-6, 1000));
  GLINT_TRY_STATUS(check_range("parity-gate", o.parity_gate, 0, 100));
  GLINT_TRY_STATUS(check_range("tis-clip-low", o.tis_clip_low, 0, 1));
  GLINT_TRY_STATUS(check_range("tis-clip", o.tis_clip, 1, 1e6));
  if (o.kl_loss_coef == 0 && !o.ref_load.empty()) {
    return invalid(str("--ref-load ", o.ref_load, " counts nothing: --kl-loss-coef is 0"));
  }
  if (o.fp8_rollout && o.nvfp4_rollout) {
    return invalid("give --fp8-rollout or --nvfp4-rollout, not both");
  }
  if (o.is_quantized() && o.parity_gate == 0) {
    return invalid(str(o.fp8_rollout ? "--fp8-rollout" : "--nvfp4-rollout",
                       " answers with other log-probabilities than training has; say how far they "
                       "may be apart: --parity-gate ",
                       o.fp8_rollout ? "0.03" : "0.1"));
  }
  if (o.use_tis && o.use_icepop) return invalid("give --use-tis or --use-icepop, not both");
  const char* const correction = o.use_tis ? "--use-tis" : o.use_icepop ? "--use-icepop" : nullptr;
  if (correction && o.parity_gate == 0) {
    return invalid(
        str(correction,
            " corrects an engine that computes otherwise; here all its "
            "weights would be 1. It is for --fp8-rollout, --nvfp4-rollout and --parity-gate"));
  }
  if (correction && o.rollout_temperature != 1) {
    return invalid(str(correction,
                       " compares log-probabilities before the temperature; it needs "
                       "--rollout-temperature 1"));
  }
  return Ok{};
}

Status check_reward_key(const GrpoCommandOptions& o, const char* name, const std::string& key) {
  const bool is_dapo = o.rm_type == "dapo" || o.rm_type == "boxed_dapo";
  if (key.empty() || o.has_remote() || (is_dapo && key == "score")) return Ok{};
  return invalid(
      str("--", name, " is ", quoted(key), "; ",
          is_dapo ? "of dapo it is score" : o.rm_type + " gives a number: leave it out"));
}

Status check_optimizer(const GrpoCommandOptions& o) {
  GLINT_TRY_STATUS(check_range("eps-clip", o.eps_clip, 0, 1));
  GLINT_TRY_STATUS(check_range("eps-clip-high", o.eps_clip_high, 0, 1e6));
  if (o.eps_clip_c != 0) {
    GLINT_TRY_STATUS(check_range("eps-clip-c", o.eps_clip_c, 1, 1e6));
  }
  GLINT_TRY_STATUS(check_range("entropy-coef", o.entropy_coef, -1000, 1000));
  GLINT_TRY_STATUS(o.optimizer.check());
  return check_range<std::int64_t>("batch-tokens", o.batch_tokens, 1, 1 << 30);
}

// Options that say something about another one.
Status check_companions(const GrpoCommandOptions& o) {
  const GrpoCommandOptions by_default;
  const bool evaluates = !o.eval_prompt_data.empty(), corrects = o.use_tis || o.use_icepop;
  const char* const eval = "prompts to evaluate on: --eval-prompt-data F.jsonl";
  const char* const correction = "--use-tis or --use-icepop";
  return check_needs(
      {{"--eval-interval", o.eval_interval > 0, eval, evaluates},
       {"--eval-reward-key", !o.eval_reward_key.empty(), eval, evaluates},
       {"--eval-temperature", o.eval_temperature.has_value(), eval, evaluates},
       {"--eval-top-p", o.eval_top_p.has_value(), eval, evaluates},
       {"--eval-top-k", o.eval_top_k.has_value(), eval, evaluates},
       {"--eval-max-response-len", o.eval_max_response_len.has_value(), eval, evaluates},
       {"--eps-clip-c", o.eps_clip_c != 0, "--advantage-estimator grpo or gspo",
        o.advantage_estimator != "cispo"},
       {"--mtp-loss-scaling-factor",
        o.mtp_loss_scaling_factor != by_default.mtp_loss_scaling_factor, "--enable-mtp-training",
        o.enable_mtp_training},
       {"--tis-clip", o.tis_clip != by_default.tis_clip, correction, corrects},
       {"--tis-clip-low", o.tis_clip_low != by_default.tis_clip_low, correction, corrects},
       {"--overlong-penalty-factor",
        o.overlong_penalty_factor != by_default.overlong_penalty_factor, "--overlong-buffer-len",
        o.overlong_buffer_len > 0},
       {"--generate-max-turns", o.generate_max_turns != by_default.generate_max_turns,
        "--generate-tool-command", !o.generate_tool_command.empty()},
       {"--rollout-external-timeout",
        o.rollout_external_timeout != by_default.rollout_external_timeout,
        "--rollout-external-engine-addrs", o.is_elsewhere()}});
}

}  // namespace

Status check(const GrpoCommandOptions& o) {
  if (o.prompt_data.empty()) return invalid("give prompts to learn from: --prompt-data F.jsonl");
  if (o.rm_type.empty()) {
    const bool is_program = !o.rm_url.empty() || !o.rm_command.empty();
    return invalid(str("give a reward: --rm-type ", is_program ? "remote_rm" : "deepscaler"));
  }
  if (o.save.empty()) return invalid("give a directory for checkpoints: --save DIR");
  GLINT_TRY_STATUS(check_rollouts(o));
  GLINT_TRY_STATUS(check_optimizer(o));
  GLINT_TRY_STATUS(check_corrections(o));
  GLINT_TRY_STATUS(check_staleness(o));
  GLINT_TRY_STATUS(check_answers(o));
  GLINT_TRY_STATUS(check_external(o));
  if (!o.rm_url.empty() && !o.rm_command.empty()) {
    return invalid("give --rm-url or --rm-command, not both");
  }
  if (o.rm_type != kRemoteRule) {
    GLINT_TRY_STATUS(Reward::named(o.rm_type));
  } else if (!o.has_remote()) {
    return invalid("--rm-type remote_rm needs --rm-url URL, or --rm-command CMD");
  }
  if (!o.rm_url.empty()) {
    GLINT_TRY_STATUS(parse_server_url(o.rm_url).in("--rm-url"));
  }
  GLINT_TRY_STATUS(check_reward_key(o, "reward-key", o.reward_key));
  GLINT_TRY_STATUS(check_reward_key(o, "eval-reward-key", o.eval_reward_key));
  GLINT_TRY_STATUS(parse_spec(o.spec));
  GLINT_TRY_STATUS(check_range("rm-timeout", o.rm_timeout, 1, 1e6));
  return check_companions(o);
}

std::vector<std::string> GrpoCommandOptions::notes() const {
  const GrpoCommandOptions by_default;
  std::vector<std::string> all;
  if (advantage_estimator == "cispo" && eps_clip < 1) {
    all.push_back(str("--eps-clip ", format_double(eps_clip),
                      " bounds the weights of cispo below, ",
                      "too; MiniMax-M1 had no such bound: --eps-clip 1"));
  }
  if (kl_loss_coef == 0 && kl_loss_type != by_default.kl_loss_type) {
    all.push_back(str("--kl-loss-type ", kl_loss_type, " counts nothing: --kl-loss-coef is 0"));
  }
  if (eval_prompt_data.empty() &&
      n_samples_per_eval_prompt != by_default.n_samples_per_eval_prompt) {
    all.push_back(str("--n-samples-per-eval-prompt ", n_samples_per_eval_prompt,
                      " counts nothing: there is no --eval-prompt-data"));
  }
  return all;
}

GroupOptions GrpoCommandOptions::groups(std::function<void(const std::string&)> tell) const {
  return {.rollout_batch_size = rollout_batch_size,
          .n_samples_per_prompt = n_samples_per_prompt,
          .over_sampling_batch_size = over_sampling_batch_size,
          .partial = partial_rollout,
          .mask_offpolicy = mask_offpolicy_in_partial_rollout,
          .max_staleness = max_weight_staleness,
          .rollout = {.temperature = rollout_temperature,
                      .top_p = rollout_top_p,
                      .top_k = std::max(rollout_top_k, 0),
                      .max_tokens = rollout_max_response_len,
                      .max_running = max_num_seqs,
                      .num_drafts = parse_spec(spec).value(),
                      .stop_ids = {},
                      .routes = use_rollout_routing_replay},
          .std_normalization = !disable_grpo_std_normalization,
          .dynamic_sampling_rounds = dynamic_sampling_rounds,
          .overlong_margin = overlong_buffer_len,
          .overlong_penalty = overlong_penalty_factor,
          .seed = seed,
          .remote = !rm_url.empty()       ? remote_grader(rm_url, rm_timeout, std::move(tell))
                    : !rm_command.empty() ? command_grader(rm_command, rm_timeout)
                                          : RemoteGrader(),
          .reward_key = reward_key,
          .eval_reward_key = eval_reward_key.empty() ? reward_key : eval_reward_key};
}

GrpoEvalOptions GrpoCommandOptions::eval() const {
  return {.samples = n_samples_per_eval_prompt,
          .temperature = eval_temperature.value_or(rollout_temperature),
          .top_p = eval_top_p.value_or(rollout_top_p),
          .top_k = std::max(eval_top_k.value_or(rollout_top_k), 0),
          .max_tokens = eval_max_response_len.value_or(rollout_max_response_len)};
}

GrpoOptions GrpoCommandOptions::grpo() const {
  PolicyLossKind kind = PolicyLossKind::kGrpo;
  if (advantage_estimator == "gspo") kind = PolicyLossKind::kGspo;
  if (advantage_estimator == "cispo") kind = PolicyLossKind::kCispo;
  KlKind kl = KlKind::kK1;
  if (kl_loss_type == "k2") kl = KlKind::kK2;
  if (kl_loss_type == "k3") kl = KlKind::kK3;
  if (kl_loss_type == "low_var_kl") kl = KlKind::kLowVar;
  using Mismatch = MismatchOptions::Kind;
  return {.steps_of_round = steps_of_round(),
          .removes_constant_groups = remove_constant_reward_groups,
          .loss = {.policy = {.kind = kind,
                              .eps_clip = eps_clip,
                              .eps_clip_high = eps_clip_high,
                              .eps_clip_c = eps_clip_c,
                              .kl_coef = kl_loss_coef,
                              .kl = kl,
                              .mismatch = {.kind = use_tis      ? Mismatch::kTis
                                                   : use_icepop ? Mismatch::kIcePop
                                                                : Mismatch::kNone,
                                           .low = tis_clip_low,
                                           .high = tis_clip}},
                   .entropy_coef = entropy_coef,
                   .per_token = calculate_per_token_loss},
          .mtp_loss = mtp_loss(),
          .temperature = static_cast<float>(rollout_temperature),
          .batch_tokens = batch_tokens,
          .parity_samples = parity_samples,
          .parity_gate = parity_gate};
}

Status GrpoCommandOptions::settle(std::int64_t rows) {
  if (global_batch_size == 0) {
    global_batch_size = answers_of_round() / std::max(1, num_steps_per_rollout);
  }
  if (num_epoch == 0) return Ok{};
  const std::int64_t rounds = rows / rollout_batch_size * num_epoch;
  if (rounds > 0 && rounds <= kMostRounds) {
    num_rollout = static_cast<int>(rounds);
    return Ok{};
  }
  return invalid(str("--num-epoch ", num_epoch, " of ", rows, " rows with --rollout-batch-size ",
                     rollout_batch_size, " are ", rounds, " rounds; give --num-rollout"));
}

std::int64_t GrpoCommandOptions::num_steps() const {
  return std::int64_t{num_rollout} * steps_of_round();
}

LearningRate GrpoCommandOptions::learning_rate() const {
  return optimizer.learning_rate(num_steps());
}

Json GrpoCommandOptions::fixed_options() const {
  Json::Object all = {{"rm-type", rm_type},
                      {"rollout-shuffle", rollout_shuffle},
                      {"rollout-batch-size", rollout_batch_size},
                      {"n-samples-per-prompt", n_samples_per_prompt},
                      {"global-batch-size", global_batch_size},
                      {"rollout-max-response-len", rollout_max_response_len},
                      {"rollout-temperature", rollout_temperature},
                      {"over-sampling-batch-size", over_sampling_batch_size},
                      {"partial-rollout", partial_rollout},
                      {"async-rollout", async_rollout},
                      {"rollout-json-schema", rollout_json_schema},
                      {"rollout-regex", rollout_regex},
                      {"generate-max-turns", generate_max_turns},
                      {"advantage-estimator", advantage_estimator},
                      {"fp8-rollout", fp8_rollout},
                      {"nvfp4-rollout", nvfp4_rollout},
                      {"use-rollout-routing-replay", use_rollout_routing_replay},
                      {"kl-loss-coef", kl_loss_coef},
                      {"mtp-loss-scaling-factor", mtp_loss()},
                      {"dtype", how.dtype},
                      {"index", index_of(how.of_model(model))},
                      {"seed", static_cast<std::int64_t>(seed)}};
  return all;
}

}  // namespace glint
