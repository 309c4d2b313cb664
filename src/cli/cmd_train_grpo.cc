// glint train grpo: a model learns from rewards of its own answers.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <future>

#include "base/directory_lock.h"
#include "base/seconds.h"
#include "base/str.h"
#include "cli/grpo_models.h"
#include "cli/grpo_position.h"
#include "cli/grpo_prompts.h"
#include "cli/grpo_record.h"
#include "cli/grpo_rules.h"
#include "cli/interrupt.h"
#include "cli/train_base.h"
#include "rl/rollout_state.h"

namespace glint {
namespace {

using Clock = std::chrono::steady_clock;

// Everything that a run holds, from the options to the first round.
class Run {
 public:
  Run(const GrpoCommandOptions& options, const TrainPeers& peers, Cli& cli)
      : options_(options), peers_(peers), cli_(cli), models_(options_, peers, cli) {}

  Status run() {
    GLINT_TRY_STATUS(open());
    if (peers_.is_first()) {
      for (const std::string& line : options_.notes()) cli_.console.note(line);
    }
    if (at_.round >= options_.num_rollout) {
      cli_.console.print(str(options_.save, " has ", counted(at_.round, "round"),
                             " already; --num-rollout is ", options_.num_rollout, "\n"));
      const Status status = catch_up();
      return interrupted_ ? Ok{} : status;
    }
    cli_.console.print(str("training ", with_commas(models_.trainer().ranks().num_trained()),
                           " parameters on ", counted(std::ssize(prompts_.train), "prompt"),
                           "; rounds ", at_.round + 1, " to ", options_.num_rollout, "\n"));
    if (const std::string url = record_ ? record_->url() : ""; !url.empty()) {
      cli_.console.print(str("the run as a page: ", url, "\n"));
    }
    cli_.console.flush();
    Status status = loop();
    // A signal, and what fails, ends the round that runs; what was done before it is saved, with
    // the steps of a round whose later gradient was no number.
    const bool ended =
        !status.ok() && status.error().code == ErrorCode::kUnavailable && peers_.any(interrupted_);
    if (unsaved_) {
      GLINT_TRY_STATUS(save());
    }
    cli_.console.print(ranks_text(models_.trainer().describe_ranks(models_.reference())));
    if (ended) {
      cli_.console.print(str("ended by a signal after ", at_.round, " of ",
                             counted(options_.num_rollout, "round"), "; --resume goes on\n"));
      return Ok{};
    }
    return status;
  }

 private:
  Status open() {
    if (options_.rm_type != kRemoteRule) {
      GLINT_TRY(rule_, Reward::named(options_.rm_type));
    }
    const RunFolder folder = {
        .dir = options_.save, .option = "save", .resumes = options_.resume || cli_.goes_on};
    GLINT_TRY_STATUS(find_latest(folder, peers_));
    GLINT_TRY(const std::string base, model_dir(options_.model, peers_, cli_));
    std::string reference = base;
    if (!options_.ref_load.empty()) {
      GLINT_TRY(reference, model_dir(options_.ref_load, peers_, cli_));
    }
    shutdown_.emplace();
    GLINT_TRY(const std::optional<std::string> latest, find_latest(folder, peers_, &lock_));
    const std::string from = latest.value_or(base);
    GLINT_TRY(tokenizer_, Tokenizer::open(from));
    GLINT_TRY(OpenedModel opened, open_model(from, ModelFiles::kAll));
    GLINT_TRY(prompts_, read_grpo_prompts(options_, from, opened.config));
    GLINT_TRY_STATUS(options_.settle(std::ssize(prompts_.train)));
    GLINT_TRY(const Json state, models_.open(from, std::move(opened), latest.has_value()));
    if (latest) {
      GLINT_TRY(at_, GrpoPosition::of(state, options_, prompts_.train));
      const std::string note = options_.optimizer.note_after(state, options_.num_steps());
      if (!note.empty()) cli_.console.note(note);
    }
    GLINT_TRY_STATUS(peers_.on_first([&]() -> Status {
      models_.remove_left_files();
      if (at_.round < options_.num_rollout) {
        GLINT_TRY_STATUS(models_.trainer().make_room(options_.save));
      }
      GLINT_TRY(at_.base, base_of_run(base));
      return Ok{};
    }));
    GLINT_TRY(at_.reference, models_.open_reference(reference));
    GLINT_TRY_STATUS(peers_.on_first(
        [&]() -> Status { return latest ? at_.check_models(state, options_) : Ok{}; }));
    GLINT_TRY_STATUS(models_.open_engine([this] { return goes_on(); }));
    GLINT_TRY_STATUS(peers_.on_first([&] { return open_rollouts(from); }));
    GLINT_TRY_STATUS(reserve());
    GrpoOptions grpo = options_.grpo();
    grpo.reference = models_.reference();
    grpo.answering = models_.answering();
    grpo_.emplace(models_.trainer().pass(), grpo);
    return Ok{};
  }

  // Makes room for the largest batch of answers, as long as they may become: passes that score have
  // all of a round before them, however few each of its steps learns from.
  Status reserve() {
    std::int64_t longest = 0;
    for (const TrainPrompt& prompt : prompts_.train)
      longest = std::max(longest, std::ssize(prompt.ids));
    longest += options_.rollout_max_response_len;
    const std::int64_t answers = options_.answers_of_round();
    const std::int64_t rows = std::min<std::int64_t>(options_.batch_tokens, answers * longest);
    // More that are shorter than a page make room when they come.
    const std::int64_t most = std::max<std::int64_t>(rows / kPageSize, 1);
    const auto shape_of_batch = [&](bool drafts) {
      return shape_of(rows, std::min(answers, most), longest, drafts);
    };
    GLINT_TRY_STATUS(
        models_.trainer().pass().reserve(shape_of_batch(options_.enable_mtp_training)));
    BatchShape shape = shape_of_batch(false);
    shape.learns = false;
    for (TrainRanks* const scores : {models_.reference(), models_.answering()}) {
      if (scores) GLINT_TRY_STATUS(scores->reserve(shape));
    }
    return Ok{};
  }

  // All that answers, grades, and tells of it.
  Status open_rollouts(const std::string& from) {
    LoadedModel& model = models_.trainer().model();
    GroupOptions groups =
        options_.groups([this](const std::string& line) { cli_.console.note(line); });
    groups.rollout.stop_ids = stop_ids(model.config(), model.generation());
    groups.rollout.num_token_ids = tokenizer_->vocab_size();
    GLINT_TRY(rules_,
              GrpoRules::open(options_, from, *tokenizer_, model, [this] { return goes_on(); }));
    groups.rules = rules_->rules();
    GLINT_TRY(record_, GrpoRecord::open({.dir = options_.save,
                                         .tensorboard_dir = options_.tensorboard_dir,
                                         .port = options_.port,
                                         .page = {.model = options_.model,
                                                  .rounds_done = at_.round,
                                                  .rounds = options_.num_rollout}}));
    groups_.emplace(models_.rollouts(), *tokenizer_, rule_ ? &*rule_ : nullptr, groups);
    order_.emplace(prompts_.train.size(), options_.seed, options_.rollout_shuffle);
    return Ok{};
  }

  bool goes_on() {
    if (shutdown_->wait_for(0)) interrupted_ = true;
    return !interrupted_;
  }

  // Whether something is due after the last round that is done: every `interval` rounds (0: never),
  // and with --num-epoch also where an epoch ends (slime's meaning).
  bool is_due(int interval) const {
    if (interval == 0) return false;
    const bool ends_epoch =
        options_.num_epoch > 0 && at_.round % (options_.num_rollout / options_.num_epoch) == 0;
    return at_.round % interval == 0 || ends_epoch;
  }
  bool is_last() const { return at_.round == options_.num_rollout; }
  bool evaluates() const { return at_.round == 0 || is_last() || is_due(options_.eval_interval); }

  // The evaluation before the first round, or the one in which the run before was ended.
  Status catch_up() {
    return models_.on_engine([this]() -> Status {
      if (!evaluates() || record_->has_eval()) return Ok{};
      GLINT_TRY_STATUS(evaluate());
      return at_.round == 0 ? Status(Ok{}) : record_->write_page(0);
    });
  }

  Status loop() {
    GLINT_TRY_STATUS(catch_up());
    // The evaluation before them is no part of the rounds that are left.
    const auto start = Clock::now();
    const std::int64_t first = at_.round;
    while (at_.round < options_.num_rollout) {
      GLINT_TRY_STATUS(do_round());
      const double left = seconds_since(start) / static_cast<double>(at_.round - first) *
                          static_cast<double>(options_.num_rollout - at_.round);
      cli_.console.print(str(line_, "; ", duration_text(left), " left\n"));
      cli_.console.flush();
      if (is_last() || is_due(options_.save_interval)) GLINT_TRY_STATUS(save());
      if (evaluates()) {
        GLINT_TRY_STATUS(models_.on_engine([this] { return evaluate(); }));
      }
      GLINT_TRY_STATUS(peers_.on_first([&] { return record_->write_page(left); }));
    }
    return Ok{};
  }

  // Answers for training after `trained_at` rounds, by the weights that the engine has.
  Result<GrpoBatch> roll_out(std::int64_t trained_at, RoundFigures& figures,
                             const std::function<bool()>& is_wanted) {
    const auto begin = Clock::now();
    Result<GrpoBatch> batch =
        groups_->roll_out(prompts_.train, *order_,
                          {.position = at_.prompts_used,
                           .begun = at_.begun,
                           .version = static_cast<std::int32_t>(at_.round),
                           .trained_at = static_cast<std::int32_t>(trained_at)},
                          [&](int tokens) {
                            figures.answered_tokens += tokens;
                            return is_wanted();
                          });
    figures.answered_s += seconds_since(begin);
    return batch;
  }

  // The first rank's, on all.
  Result<GrpoBatch> share(const std::function<Result<GrpoBatch>()>& make) {
    if (peers_.is_alone()) return make();
    GrpoBatch batch;
    GLINT_TRY(const std::string text, models_.on_engine_text([&]() -> Result<std::string> {
      GLINT_TRY(batch, make());
      return dump_json(to_json(batch));
    }));
    if (peers_.is_first()) return batch;
    GLINT_TRY(const Json json, parse_json(text));
    return grpo_batch_of(json);
  }

  // The next rollouts go on after these.
  void go_on_after(GrpoBatch& batch) {
    at_.prompts_used += batch.prompts_used;
    at_.begun = std::exchange(batch.begun, {});
  }

  Status do_round() {
    const auto begin = Clock::now();
    RoundFigures figures = {.steps = options_.steps_of_round(),
                            .has_kl = options_.kl_loss_coef != 0,
                            .has_staleness = options_.partial_rollout || options_.async_rollout,
                            .has_turns = !options_.generate_tool_command.empty(),
                            .has_weights = options_.use_tis || options_.use_icepop};
    if (options_.async_rollout) return do_round_beside_rollouts(figures);
    GLINT_TRY(GrpoBatch batch, share([&] { return roll_out(at_.round, figures, on_part_); }));
    figures.rollout_s = seconds_since(begin);
    GLINT_TRY_STATUS(grpo_->prepare(batch, on_part_));
    GLINT_TRY_STATUS(train(batch, figures));
    figures.train_s = seconds_since(begin) - figures.rollout_s;
    go_on_after(batch);
    return finish_round(batch, figures);
  }

  // While this round trains, the engine answers the next one's prompts by the weights that the
  // round began with: those answers are verified before these weights go.
  Status do_round_beside_rollouts(RoundFigures& figures) {
    const auto begin = Clock::now();
    if (!at_.ahead) {
      GLINT_TRY(at_.ahead, share([&] { return roll_out(at_.round, figures, on_part_); }));
      figures.rollout_s = seconds_since(begin);
      GLINT_TRY_STATUS(grpo_->prepare(*at_.ahead, on_part_));
      go_on_after(*at_.ahead);
    }
    std::atomic<bool> is_wanted = true;
    std::future<Result<GrpoBatch>> rollouts;
    if (peers_.is_first()) {
      rollouts = std::async(std::launch::async, [&] {
        return roll_out(at_.round + 1, figures, [&] { return is_wanted.load() && goes_on(); });
      });
    }
    if (const Status trained = train(*at_.ahead, figures); !trained.ok()) {
      is_wanted = false;
      if (rollouts.valid()) rollouts.wait();
      return trained;
    }
    const auto waited_from = Clock::now();
    Result<GrpoBatch> next = share([&] { return rollouts.get(); });
    figures.rollout_s += seconds_since(waited_from);
    const Status prepared =
        next.ok() ? grpo_->prepare(next.value(), on_part_) : Status(next.error());
    figures.train_s = seconds_since(begin) - figures.rollout_s;
    if (!prepared.ok()) {
      // This round has learned, and is done: a run that goes on asks anew, by the newest weights.
      const GrpoBatch batch = *std::exchange(at_.ahead, std::nullopt);
      ++at_.round;
      unsaved_ = true;
      GLINT_TRY_STATUS(peers_.on_first([&] { return report(batch, figures); }));
      return prepared;
    }
    const GrpoBatch batch = std::exchange(*at_.ahead, std::move(next).value());
    go_on_after(*at_.ahead);
    return finish_round(batch, figures);
  }

  Status train(const GrpoBatch& batch, RoundFigures& figures) {
    Grpo::Sums& sums = figures.sums;
    for (int i = 0; i < options_.steps_of_round(); ++i) {
      // After its first step a round is finished, whatever signal comes: what is saved is always of
      // whole rounds.
      GLINT_TRY(const Grpo::Sums one,
                grpo_->add_gradient(batch, i, i == 0 ? on_part_ : GradientPass::OnPart()));
      sums.policy.add(one.policy);
      sums.entropy += one.entropy;
      sums.mtp_nll += one.mtp_nll, sums.mtp_tokens += one.mtp_tokens;
      sums.answers += one.answers;
      sums.tokens += one.tokens;
      const double rate = options_.learning_rate().at(models_.trainer().steps_done() + 1);
      GLINT_TRY(figures.step, models_.trainer().step(rate));
      figures.grad_norm += figures.step.grad_norm / figures.steps;
    }
    return Ok{};
  }

  Status finish_round(const GrpoBatch& batch, RoundFigures& figures) {
    const auto updated_from = Clock::now();
    // The round is done, and told, whoever fails to take its weights.
    ++at_.round;
    unsaved_ = true;
    const Status updated = models_.update_engine();
    figures.update_s = seconds_since(updated_from);
    GLINT_TRY_STATUS(peers_.on_first([&] { return report(batch, figures); }));
    return updated;
  }

  Status report(const GrpoBatch& batch, const RoundFigures& figures) {
    const double mean = figures.per_token(figures.sums.entropy);
    std::string entropy = std::isnan(mean) ? "nothing to learn" : formatted("entropy %.3f", mean);
    if (std::isnan(mean) && batch.parity.tokens > 0) {
      entropy += formatted(", entropy %.3f", batch.parity.entropy);
    }
    line_ = formatted(
        "round %lld of %d: reward %.3f, %.1f tokens an answer, parity: %lld of %lld "
        "log-probabilities differ, %s, grad norm %.2f, %.1f s (rollout %.1f, training %.1f)",
        static_cast<long long>(at_.round), options_.num_rollout, batch.mean_reward(),
        batch.mean_length(), static_cast<long long>(batch.parity.differ),
        static_cast<long long>(batch.parity.tokens), entropy.c_str(), figures.grad_norm,
        figures.seconds(), figures.rollout_s, figures.train_s);
    return record_->add_round(batch, figures);
  }

  Status evaluate() {
    if (prompts_.eval.empty()) return Ok{};
    const auto begin = Clock::now();
    GLINT_TRY(const GrpoEval eval,
              groups_->evaluate(prompts_.eval, options_.eval(), [this](int) { return goes_on(); }));
    cli_.console.print(formatted("eval after %s: reward %.4f of %s, %.1f tokens each, %.1f s\n",
                                 counted(at_.round, "round").c_str(), eval.reward,
                                 counted(eval.answers, "answer").c_str(), eval.response_tokens,
                                 seconds_since(begin)));
    cli_.console.flush();
    return record_->add_eval(eval, seconds_since(begin));
  }

  Status save() {
    GLINT_TRY_STATUS(models_.trainer().save(options_.save, at_.state(options_, prompts_.train)));
    unsaved_ = false;
    cli_.console.print(
        str("saved ", options_.save, "/step-", models_.trainer().steps_done(), "\n"));
    cli_.console.flush();
    return Ok{};
  }

  GrpoCommandOptions options_;
  const TrainPeers& peers_;
  Cli& cli_;
  DirectoryLock lock_;                     // of --save
  std::optional<ShutdownGuard> shutdown_;  // after models are here: fetching has its own guard
  std::atomic<bool> interrupted_ = false;  // also answers that are made beside training look
  bool unsaved_ = false;
  const GradientPass::OnPart on_part_ = [this] { return goes_on(); };
  std::optional<Reward> rule_;
  std::optional<Tokenizer> tokenizer_;
  GrpoPrompts prompts_;
  GrpoModels models_;
  std::optional<GrpoRecord> record_;
  std::unique_ptr<GrpoRules> rules_;
  std::optional<GroupRollouts> groups_;
  std::optional<Grpo> grpo_;
  std::optional<RowOrder> order_;
  GrpoPosition at_;
  std::string line_;
};

Status run(const GrpoCommandOptions& options, Cli& cli) {
  GLINT_TRY_STATUS(check(options));
  return run_train_ranks(
      options.processes, options.layout.shape(), cli,
      [&](const TrainPeers& peers, Cli& own) { return Run(options, peers, own).run(); });
}

}  // namespace

Command train_grpo_command() {
  return make_command<GrpoCommandOptions>(
      {.name = "train grpo",
       .group = "Training",
       .summary = "a model learns from rewards of its own answers (GRPO)",
       .description =
           "Each round, the engine that serves answers some prompts several times each; a rule "
           "grades the answers; and the weights move towards those that are better than others of "
           "the same prompt. The engine's log-probabilities are those of the training pass: a "
           "sample of each round is compared bit for bit, and the first difference ends the run. "
           "Groups whose answers all have one reward teach nothing. The same seed gives the same "
           "weights, bit for bit, on one machine. Checkpoints are complete (DIR/step-N: `glint "
           "serve` takes them); DIR/metrics.jsonl has a line a round. SIGTERM, Ctrl-C and a "
           "closed terminal (SIGHUP) end the round and save. Names are those of miles and slime.",
       .examples = {{"glint train grpo MODEL --prompt-data F.jsonl --rm-type math "
                     "--num-rollout 60 --save out",
                     "60 rounds of 32 problems, 8 answers each"},
                    {"glint train grpo MODEL --prompt-data F.jsonl --rm-type math "
                     "--num-rollout 60 --save out --resume",
                     "go on, or begin: the same line after a crash"}}},
      run);
}

}  // namespace glint
