// glint train sft: a checkpoint learns to say what examples say.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>

#include "base/ceil_div.h"
#include "base/directory_lock.h"
#include "base/seconds.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/conversation.h"
#include "cli/interrupt.h"
#include "cli/optimizer_options.h"
#include "cli/option_checks.h"
#include "cli/train_base.h"
#include "cli/train_layout.h"
#include "cli/train_options.h"
#include "cli/train_processes.h"
#include "train/event_file.h"
#include "train/round_log.h"
#include "train/row_order.h"
#include "train/sft_data.h"
#include "train/trainer.h"

namespace glint {
namespace {

struct Schedule {
  std::optional<double> epochs;
  std::optional<int> steps;
  int global_batch = 8, batch_tokens = 8192, seed = 42;
};

struct Options {
  std::string model, data, out;
  Schedule plan;
  OptimizerOptions optimizer = {.lr = 1e-5, .lr_decay_style = "cosine"};
  double mtp_loss = 0;
  int save_interval = 0;
  bool resume = false;
  std::string tensorboard_dir;
  TrainLayoutOptions layout;
  TrainProcessOptions processes;
  TrainRunOptions how;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("MODEL", model,
      "directory of a checkpoint in bf16 or f32, or an id in the Hugging Face cache");
    v.section("Data");
    v("data=F.jsonl", data,
      "an example a line: {\"messages\": [...], \"tools\": [...]}, whose loss is that of the "
      "assistant's turns with their end, or {\"prompt\", \"completion\"}, or {\"text\"}");
    v("epochs=X", plan.epochs, "times through the data, shuffled anew each time (default: 1)");
    v("steps=N", plan.steps, "updates of the weights, in place of --epochs");
    v("global-batch-size=N", plan.global_batch, "examples of one update");
    v("batch-tokens=N", plan.batch_tokens,
      "tokens that go through the model together: memory grows with it, and gradients change by "
      "their rounding only");
    v("seed=N", plan.seed, "of the shuffling");
    v.section("Optimiser");
    optimizer.visit(v);
    v("mtp-loss,mtp-loss-scaling-factor=W", mtp_loss,
      "add W times the draft layer's loss; with 0 the draft layer stays as it is");
    v.section("Result");
    v("out=DIR", out,
      "gets step-N/ (complete checkpoints, with optimizer/), train.jsonl and "
      "latest_checkpointed_iteration.txt");
    v("save-interval=N", save_interval, "save every N updates; the last is saved in any case");
    v("resume", resume, "go on from the newest checkpoint of DIR, if it has one, bit for bit");
    v("tensorboard-dir=D", tensorboard_dir, "event files (default: DIR/tensorboard)");
    layout.visit(v);
    processes.visit(v);
    how.visit(v);
  }
};

Status check(const Options& o) {
  if (o.data.empty()) return invalid("give the examples: --data F.jsonl");
  if (o.out.empty()) return invalid("give a directory for the checkpoints: --out DIR");
  if (o.plan.epochs && o.plan.steps) return invalid("give --epochs or --steps, not both");
  GLINT_TRY_STATUS(check_range("epochs", o.plan.epochs.value_or(1), 1e-6, 1e6));
  GLINT_TRY_STATUS(check_range("steps", o.plan.steps.value_or(1), 1, 1'000'000'000));
  GLINT_TRY_STATUS(check_range("global-batch-size", o.plan.global_batch, 1, 1'000'000));
  GLINT_TRY_STATUS(check_range("batch-tokens", o.plan.batch_tokens, 1, 1'000'000'000));
  GLINT_TRY_STATUS(check_range("seed", o.plan.seed, 0, 2'000'000'000));
  GLINT_TRY_STATUS(o.optimizer.check());
  GLINT_TRY_STATUS(check_range("mtp-loss", o.mtp_loss, 0, 1000));
  return check_range("save-interval", o.save_interval, 0, 1'000'000'000);
}

class Run {
 public:
  Run(const Options& options, const TrainPeers& peers, Cli& cli)
      : options_(options), peers_(peers), cli_(cli) {}

  Status run() {
    GLINT_TRY_STATUS(open());
    bool stopped = false;
    const auto on_part = [&] {
      stopped = stopped || shutdown_->wait_for(0);
      return !stopped;
    };
    // A single rank that is to stop stops all.
    const auto all_go_on = [&] {
      stopped = peers_.any(!on_part());
      return !stopped;
    };
    while (trainer_->steps_done() < total_ && all_go_on()) {
      const Status done = step(on_part);
      if (!done.ok() && (stopped = peers_.any(stopped))) break;
      const std::int64_t at = trainer_->steps_done();
      if (!done.ok()) {
        // Weights are as after the steps that were done, which are not lost.
        if (at > 0) GLINT_TRY_STATUS(save());
        return done;
      }
      if (options_.save_interval > 0 && at % options_.save_interval == 0) GLINT_TRY_STATUS(save());
    }
    if (trainer_->steps_done() == 0) {
      cli_.console.note("stopped before the first update; there is nothing to save");
      return Ok{};
    }
    GLINT_TRY_STATUS(save());
    const Json ranks = trainer_->describe_ranks();
    cli_.console.print(str(
        stopped && trainer_->steps_done() < total_ ? "stopped; --resume goes on from " : "done: ",
        options_.out, "/step-", trainer_->steps_done(), "\n"));
    cli_.console.print(ranks_text(ranks));
    return Ok{};
  }

 private:
  Status open() {
    const RunFolder folder = {
        .dir = options_.out, .option = "out", .resumes = options_.resume || cli_.goes_on};
    GLINT_TRY_STATUS(find_latest(folder, peers_));
    GLINT_TRY(const std::string base, model_dir(options_.model, peers_, cli_));
    shutdown_.emplace();
    GLINT_TRY(std::optional<std::string> latest, find_latest(folder, peers_, &lock_));
    GLINT_TRY(base_, base_of_run(base));
    const RunOptions how = options_.how.of_model(latest.value_or(base));
    GLINT_TRY(const ModelOptions resolved, resolve(how, cli_, options_.mtp_loss > 0));
    GLINT_TRY(OpenedModel opened, open_model(resolved));
    GLINT_TRY_STATUS(check_mtp(opened, options_.model, options_.mtp_loss > 0, "mtp-loss"));
    GLINT_TRY(LaidOutRanks layout, lay_out(options_.layout.shape(), how, resolved, cli_, peers_));
    GLINT_TRY(
        trainer_,
        Trainer::open({.model = layout.model, .adamw = options_.optimizer.adamw(), .peers = peers_},
                      std::move(layout.backends), {}, std::move(opened)));
    if (peers_.is_first()) note_untrained(trainer_->model(), cli_);
    GLINT_TRY_STATUS(read_data(resolved.dir));
    // Whole examples first: a product such as 0.07 * 100 lies above what it stands for.
    const auto count = static_cast<double>(data_.sequences.size());
    const std::int64_t wanted =
        std::max<std::int64_t>(std::llround(options_.plan.epochs.value_or(1) * count), 1);
    total_ =
        options_.plan.steps.value_or(ceil_div(wanted, std::int64_t{options_.plan.global_batch}));
    if (latest) {
      GLINT_TRY(const Json before, trainer_->restore(*latest));
      GLINT_TRY_STATUS(check_same(before));
      cli_.console.note(str("going on from ", *latest));
      const std::string note = options_.optimizer.note_after(before, total_);
      if (!note.empty()) cli_.console.note(note);
    }
    GLINT_TRY_STATUS(reserve());
    order_.emplace(data_.sequences.size(), static_cast<std::uint64_t>(options_.plan.seed), true);
    if (trainer_->steps_done() < total_) {
      GLINT_TRY_STATUS(peers_.on_first([&] { return trainer_->make_room(options_.out); }));
    }
    if (!peers_.is_first()) return Ok{};
    const std::int64_t next = trainer_->steps_done() + 1;
    GLINT_TRY(log_, RoundLog::open(options_.out + "/train.jsonl", "step", next));
    const std::string& events = options_.tensorboard_dir;
    GLINT_TRY(events_,
              EventFile::open(events.empty() ? options_.out + "/tensorboard" : events, next));
    return Ok{};
  }

  Status read_data(const std::string& dir) {
    const LoadedModel& model = trainer_->model();
    std::vector<TokenId> ends = model.generation().eos_token_ids;
    if (ends.empty()) {
      return invalid(str(dir,
                         " does not say which tokens end an answer: its generation_config.json "
                         "and config.json have no eos_token_id"));
    }
    GLINT_TRY(data_, read_sft_data({.path = options_.data,
                                    .dir = dir,
                                    .ends = ends,
                                    .max_tokens = model.config().max_position_embeddings,
                                    .prepare = [&](const Json& messages, const Json& tools) {
                                      return read_chat_messages(messages, tools,
                                                                model.config().vocab_size);
                                    }}));
    for (std::size_t i = 0; i < data_.sequences.size(); ++i) {
      GLINT_TRY_STATUS(check_train_sequence(model, data_.sequences[i])
                           .in(str(options_.data, ", example ", i + 1)));
    }
    return Ok{};
  }

  // Makes room for the largest batch that examples can come to, in whatever order.
  Status reserve() {
    std::vector<std::int64_t> sizes;
    for (const TrainSequence& example : data_.sequences) sizes.push_back(example.size());
    std::ranges::sort(sizes, std::greater());
    // Between whole epochs it has the end of one and the beginning of another, of the same
    // examples.
    const auto count = static_cast<int>(sizes.size());
    const int whole = std::max(options_.plan.global_batch / count - 1, 0) * count;
    std::int64_t rows = 0;
    for (int i = 0; i < options_.plan.global_batch && rows < options_.plan.batch_tokens; ++i) {
      rows += sizes[static_cast<std::size_t>(i < whole ? i % count : (i - whole) / 2)];
    }
    rows = std::min<std::int64_t>(rows, options_.plan.batch_tokens);
    const std::int64_t most = std::max<std::int64_t>(rows / sizes.back(), 1);
    return trainer_->pass().reserve(
        shape_of(rows, std::min<std::int64_t>(options_.plan.global_batch, most), sizes.front(),
                 options_.mtp_loss > 0));
  }

  // Things that decide what a step does.
  Json state() const {
    return Json::Object{{"command", "sft"},
                        {"model", base_},
                        {"data_fnv1a", str(data_.hash)},
                        {"seed", options_.plan.seed},
                        {"global_batch_size", options_.plan.global_batch},
                        {"mtp_loss", options_.mtp_loss > 0},
                        {"dtype", options_.how.dtype},
                        {"index", index_of(options_.how.of_model(options_.model))}};
  }
  Status check_same(const Json& before) const {
    const Json* const command = before.find("command");
    if (!command || *command != Json("sft")) {
      return invalid(options_.out + " is no run of `glint train sft`; give another --out");
    }
    const Json now = state();
    for (const auto& [key, value] : now.as_object()) {
      const Json* const was = before.find(key);
      // A run may have begun before checkpoints said how it computes.
      if (was ? *was == value : key == "dtype" || key == "index") continue;
      // Checksums tell people nothing.
      const std::string another =
          key == "model"        ? "model than " + options_.model
          : key == "data_fnv1a" ? "--data than " + options_.data
                                : str("--", with_dashes(key), " (", was ? dump_json(*was) : "none",
                                      ", now ", dump_json(value), ")");
      return invalid(str(options_.out, " was begun with another ", another,
                         "; give what it was begun with, or another --out"));
    }
    return Ok{};
  }

  std::vector<TrainSequence> examples_of(std::int64_t step) {
    const auto first = static_cast<std::uint64_t>(step * options_.plan.global_batch);
    std::vector<TrainSequence> all;
    for (int i = 0; i < options_.plan.global_batch; ++i) {
      all.push_back(data_.sequences[order_->row_at(first + static_cast<std::uint64_t>(i))]);
    }
    return all;
  }

  Status step(const GradientPass::OnPart& on_part) {
    const auto start = std::chrono::steady_clock::now();
    const std::vector<TrainSequence> examples = examples_of(trainer_->steps_done());
    std::int64_t tokens = 0;
    for (const TrainSequence& example : examples) tokens += example.size();
    const std::int64_t learnt = count_targets(examples, 1), drafted = count_targets(examples, 2);
    const double mtp = options_.mtp_loss;
    const LossTerms terms = {
        .scale = 1.0 / static_cast<double>(learnt),
        .mtp_scale = mtp > 0 && drafted > 0 ? mtp / static_cast<double>(drafted) : 0};
    GLINT_TRY(const LossSums sums,
              trainer_->pass().add(examples, terms, options_.plan.batch_tokens, on_part));
    const LearningRate rate = options_.optimizer.learning_rate(total_);
    GLINT_TRY(const StepReport report, trainer_->step(rate.at(trainer_->steps_done() + 1)));
    const double seconds = seconds_since(start);
    seconds_ += seconds;
    ++steps_here_;
    return peers_.on_first(
        [&] { return tell(report, sums, learnt, static_cast<double>(tokens) / seconds, seconds); });
  }

  Status tell(const StepReport& report, const LossSums& sums, std::int64_t learnt, double rate,
              double seconds) {
    Json line = Json::Object{{"step", report.step},
                             {"train/loss", sums.mean()},
                             {"train/grad_norm", report.grad_norm},
                             {"train/lr", report.lr},
                             {"train/tokens", learnt},
                             {"perf/step_time", seconds},
                             {"perf/tokens_per_second", rate}};
    if (sums.mtp_tokens > 0) line.set("train/mtp_loss", sums.mtp_mean());
    GLINT_TRY_STATUS(events_->add(report.step, line));
    GLINT_TRY_STATUS(log_->add(std::move(line)));
    const double left =
        seconds_ / static_cast<double>(steps_here_) * static_cast<double>(total_ - report.step);
    cli_.console.print(
        formatted("step %lld of %lld  loss %.4f  grad norm %.3f%s  lr %.3g  %.0f "
                  "tokens/s  %s left\n",
                  static_cast<long long>(report.step), static_cast<long long>(total_), sums.mean(),
                  report.grad_norm, report.is_clipped ? " (clipped)" : "", report.lr, rate,
                  duration_text(left).c_str()));
    cli_.console.flush();
    return Ok{};
  }

  Status save() {
    Json all = state();
    all.set("schedule", options_.optimizer.schedule(total_));
    return trainer_->save(options_.out, all);
  }

  const Options& options_;
  const TrainPeers& peers_;
  Cli& cli_;
  DirectoryLock lock_;                     // of --out
  std::optional<ShutdownGuard> shutdown_;  // after models are here: fetching has its own guard
  std::string base_;                       // the model that the run began with
  std::unique_ptr<Trainer> trainer_;
  SftData data_;
  std::int64_t total_ = 0, steps_here_ = 0;
  std::optional<RowOrder> order_;
  std::optional<RoundLog> log_;
  std::optional<EventFile> events_;
  double seconds_ = 0;
};

Status run(const Options& options, Cli& cli) {
  GLINT_TRY_STATUS(check(options));
  return run_train_ranks(
      options.processes, options.layout.shape(), cli,
      [&](const TrainPeers& peers, Cli& own) { return Run(options, peers, own).run(); });
}

}  // namespace

Command train_sft_command() {
  return make_command<Options>(
      {.name = "train sft",
       .group = "Training",
       .summary = "a checkpoint learns from examples (supervised fine-tuning)",
       .description =
           "Trains all of the model but the indexer and the router's bias with AdamW on f32 "
           "masters of the weights, on CPUs or GPUs. Examples are packed by tokens "
           "without padding and do not see each other. Each step-N/ is a complete checkpoint in "
           "the format of MODEL: `glint serve DIR/step-N`. SIGTERM, Ctrl-C or a closed terminal "
           "(SIGHUP) saves and ends with 0; a second SIGTERM or Ctrl-C ends at once. A failure to "
           "save, as on a full disk, leaves the checkpoints before it. Lines of train.jsonl have "
           "miles' names.",
       .examples = {{"glint train sft models/glm5-tiny --data chats.jsonl --out out --lr 1e-4",
                     "once through the data, of which docs/training.md has a first file"},
                    {"glint train sft models/glm5-tiny --data chats.jsonl --out out "
                     "--epochs 3 --resume",
                     "go on, or begin: the same line after a crash"}}},
      run);
}

}  // namespace glint
