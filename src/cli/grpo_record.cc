#include "cli/grpo_record.h"

#include <algorithm>

#include "base/file.h"
#include "base/str.h"

namespace glint {
namespace {

constexpr int kRefreshSeconds = 10;

Json metrics_of(const GrpoBatch& batch, const RoundFigures& f, std::int64_t round) {
  const AnswerCounts& c = batch.counts;
  const auto answers = static_cast<double>(batch.rewards.size());
  const auto groups = static_cast<double>(c.groups);
  Json metrics =
      Json::Object{{"round", round},
                   {"step", f.step.step},
                   {"rollout/raw_reward", batch.mean_reward()},
                   {"rollout/response_len/mean", batch.mean_length()},
                   {"rollout/response_len/max", c.longest},
                   {"rollout/truncated_ratio", static_cast<double>(c.truncated) / answers},
                   {"rollout/repetition_frac", static_cast<double>(c.repeating) / answers},
                   {"rollout/zero_std/lowest", static_cast<double>(c.groups_at_lowest) / groups},
                   {"rollout/zero_std/highest", static_cast<double>(c.groups_at_highest) / groups},
                   {"rollout/cached_prompt_share",
                    static_cast<double>(c.cached_tokens) / static_cast<double>(c.prompt_tokens)},
                   {"train/loss", f.sums.policy.loss / f.steps},
                   {"train/answers", f.sums.answers},
                   {"train/grad_norm", f.grad_norm},
                   {"train/lr", f.step.lr},
                   {"parity/tokens", batch.parity.tokens},
                   {"parity/differ", batch.parity.differ},
                   {"perf/rollout_time", f.rollout_s},
                   {"perf/train_time", f.train_s},
                   {"perf/update_weights_time", f.update_s},
                   {"perf/step_time", f.seconds()},
                   {"perf/wait_time_ratio", 1 - f.train_s / f.seconds()},
                   {"perf/rollout_tokens_per_s",
                    f.answered_s > 0 ? static_cast<double>(f.answered_tokens) / f.answered_s : 0},
                   {"perf/train_tokens_per_s", static_cast<double>(f.sums.tokens) / f.train_s}};
  if (batch.parity.tokens > 0) {
    metrics.set("train/train_rollout_logprob_abs_diff", batch.parity.difference);
    metrics.set("train/train_rollout_kl", batch.parity.kl);
    metrics.set("train/ess_ratio", batch.parity.ess_ratio);
    metrics.set("rollout/entropy", batch.parity.entropy);
  }
  if (c.drafted > 0) {
    metrics.set("rollout/spec_accept_rate",
                static_cast<double>(c.accepted) / static_cast<double>(c.drafted));
  }
  if (f.has_turns) {
    metrics.set("rollout/turns", static_cast<double>(c.turns) / answers);
  }
  if (f.has_staleness) {
    metrics.set("rollout/avg_staleness",
                static_cast<double>(c.staleness) / static_cast<double>(c.tokens));
    metrics.set("rollout/max_staleness", c.max_staleness);
  }
  if (f.sums.mtp_tokens > 0) {
    metrics.set("train/mtp_loss", f.sums.mtp_nll / static_cast<double>(f.sums.mtp_tokens));
  }
  if (f.sums.policy.tokens == 0) return metrics;
  metrics.set("train/entropy", f.per_token(f.sums.entropy));
  metrics.set("train/pg_clipfrac", f.per_token(f.sums.policy.clipped));
  metrics.set("train/ppo_kl", f.per_token(f.sums.policy.old_new_kl));
  if (f.has_kl) metrics.set("train/kl_loss", f.per_token(f.sums.policy.kl));
  if (f.has_weights) {
    metrics.set("train/tis", f.per_token(f.sums.policy.mismatch));
    metrics.set("train/tis_clipfrac", f.per_token(f.sums.policy.mismatch_clipped));
    metrics.set("train/ess_ratio", f.sums.policy.ess_ratio());
  }
  return metrics;
}

}  // namespace

Result<GrpoRecord> GrpoRecord::open(Options options) {
  GrpoRecord record;
  const std::int64_t done = options.page.rounds_done;
  if (options.tensorboard_dir.empty()) options.tensorboard_dir = options.dir + "/tensorboard";
  if (options.port) {
    GLINT_TRY(record.server_, PageServer::start(*options.port));
    options.page.refresh_seconds = kRefreshSeconds;
  }
  // A run that begins evaluates before its first round, which is round -1 of the log.
  const std::int64_t end = done == 0 ? -1 : done;
  GLINT_TRY(record.metrics_, RoundLog::open(options.dir + "/metrics.jsonl", "round", end));
  GLINT_TRY(record.samples_, RoundLog::open(options.dir + "/samples.jsonl", "round", end));
  GLINT_TRY(record.events_, EventFile::open(options.tensorboard_dir, end + 1));
  record.samples_->thin(keep_shown_samples);
  record.options_ = std::move(options);
  GLINT_TRY_STATUS(record.write_page(0));
  return record;
}

Status GrpoRecord::add(Json metrics, const std::vector<AnswerSample>& samples, bool is_eval) {
  const std::int64_t round = options_.page.rounds_done - 1;
  GLINT_TRY_STATUS(events_->add(round + 1, metrics));
  for (const AnswerSample& sample : samples) {
    GLINT_TRY_STATUS(samples_->add(sample_line(sample, round, is_eval)));
  }
  samples_->thin(keep_shown_samples);
  return metrics_->add(std::move(metrics));
}

Status GrpoRecord::add_round(const GrpoBatch& batch, const RoundFigures& figures) {
  const std::int64_t round = options_.page.rounds_done++;
  return add(metrics_of(batch, figures, round), batch.samples, false);
}

Status GrpoRecord::add_eval(const GrpoEval& eval, double seconds) {
  Json metrics = Json::Object{
      {"round", options_.page.rounds_done - 1}, {"eval/reward", eval.reward},
      {"eval/answers", eval.answers},           {"eval/response_len/mean", eval.response_tokens},
      {"eval/truncated_ratio", eval.truncated}, {"perf/eval_time", seconds}};
  for (const auto& [k, rate] : eval.pass_rates) metrics.set(str("eval/pass@", k), rate);
  return add(std::move(metrics), eval.samples, true);
}

bool GrpoRecord::has_eval() const {
  return std::ranges::any_of(metrics_->lines(), [&](const Json& line) {
    return line.find("eval/reward") && *line.find("round") == Json(options_.page.rounds_done - 1);
  });
}

Status GrpoRecord::write_page(double seconds_left) {
  RunPage page = options_.page;
  page.seconds_left = seconds_left;
  if (server_) server_->set(to_html(page, metrics_->lines(), samples_->lines()));
  page.refresh_seconds = 0;
  return write_file_atomic(options_.dir + "/report.html",
                           to_html(page, metrics_->lines(), samples_->lines()));
}

}  // namespace glint
