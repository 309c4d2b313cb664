// Everything that a GRPO run leaves for people, round by round: metrics.jsonl, samples.jsonl, event
// files for TensorBoard, and the page, which may be served while the run goes on.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/page_server.h"
#include "rl/grpo.h"
#include "rl/run_page.h"
#include "train/event_file.h"
#include "train/round_log.h"
#include "train/trainer.h"

namespace glint {

struct RoundFigures {
  Grpo::Sums sums = {};  // of all steps
  int steps = 1;
  StepReport step = {};  // the last
  double grad_norm = 0;  // mean of all steps
  bool has_kl = false, has_staleness = false, has_turns = false;
  bool has_weights = false;  // importance weights, where engine and trainer differ
  // Tokens that arrived in this round, for whichever round, and seconds of answering and grading.
  std::int64_t answered_tokens = 0;
  double answered_s = 0;
  double rollout_s = 0;  // spent waiting for answers
  double train_s = 0, update_s = 0;

  double seconds() const { return rollout_s + train_s + update_s; }
  // Not a number where no token taught anything.
  double per_token(double sum) const { return sum / sums.policy.tokens; }
};

class GrpoRecord {
 public:
  struct Options {
    std::string dir = {};              // of the run
    std::string tensorboard_dir = {};  // empty: DIR/tensorboard
    std::optional<int> port = {};      // of the page; 0: any free one
    RunPage page = {};                 // as the run begins: what was done before
  };

  // Goes on after options.page.rounds_done rounds. Fails if something cannot be written, or the
  // port is taken.
  static Result<GrpoRecord> open(Options options);

  // The round that was just finished.
  Status add_round(const GrpoBatch& batch, const RoundFigures& figures);
  Status add_eval(const GrpoEval& eval, double seconds);
  // Whether there is one of the last round that is done.
  bool has_eval() const;
  // Writes the page as of now.
  Status write_page(double seconds_left);

  // Where the page is served; empty: nowhere.
  std::string url() const { return server_ ? server_->url() : std::string(); }

 private:
  Status add(Json metrics, const std::vector<AnswerSample>& samples, bool is_eval);

  Options options_;
  std::optional<RoundLog> metrics_, samples_;
  std::optional<EventFile> events_;
  std::unique_ptr<PageServer> server_;
};

}  // namespace glint
