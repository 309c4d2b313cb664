// glint train grpo: a model learns from rewards of its own answers.
#include <chrono>
#include <cmath>

#include "base/hash.h"
#include "base/seconds.h"
#include "base/str.h"
#include "cli/conversation.h"
#include "cli/generate_options.h"
#include "cli/grpo_options.h"
#include "cli/grpo_record.h"
#include "cli/interrupt.h"
#include "quant/quantize_in_memory.h"
#include "rl/grpo.h"
#include "train/trainer.h"

namespace glint {
namespace {

using Clock = std::chrono::steady_clock;

// Sameness of prompts, as rounds see them.
std::string hash_of(const std::vector<TrainPrompt>& prompts) {
  std::string all;
  for (const TrainPrompt& prompt : prompts) {
    for (const TokenId id : prompt.ids) all += str(id, " ");
    all += str(quoted(prompt.label), prompt.rm_type, "\n");
  }
  return str(fnv1a(all));
}

// Everything that a run holds, from the options to the first round.
class Run {
 public:
  Run(const GrpoCommandOptions& options, Cli& cli) : options_(options), cli_(cli) {}

  Status run() {
    GLINT_TRY_STATUS(open());
    if (round_ >= options_.num_rollout) {
      cli_.console.print(str(options_.save, " has ", round_, " rounds already; --num-rollout is ",
                             options_.num_rollout, "\n"));
      return Ok{};
    }
    cli_.console.print(str("training ", with_commas(trainer_->parameters().count()),
                           " parameters on ", prompts_.size(), " prompts; rounds ", round_ + 1,
                           " to ", options_.num_rollout, "\n"));
    if (const std::string url = record_->url(); !url.empty()) {
      cli_.console.print(str("the run as a page: ", url, "\n"));
    }
    cli_.console.flush();
    Status status = loop();
    // A signal ends the round that runs; what was done before it is saved.
    const bool ended = interrupted_ && !status.ok();
    const bool is_whole = status.ok() || status.error().code == ErrorCode::kUnavailable;
    if (!is_whole) return status;
    if (unsaved_) {
      GLINT_TRY_STATUS(save());
    }
    if (ended) {
      cli_.console.print(str("ended by a signal after ", round_, " of ", options_.num_rollout,
                             " rounds; --resume goes on\n"));
      return Ok{};
    }
    return status;
  }

 private:
  Status open() {
    if (options_.rm_url.empty()) {
      GLINT_TRY(rule_, Reward::named(options_.rm_type));
    }
    GLINT_TRY(const std::string base, model_dir(options_.model, cli_));
    std::optional<std::string> latest;
    GLINT_TRY(latest, Trainer::find_latest(options_.save));
    if (latest && !options_.resume) {
      return invalid(str(options_.save, " holds a run already (", *latest,
                         "); give --resume to go on with it, or another --save"));
    }
    const RunOptions running = options_.how.of_model(latest.value_or(base));
    GLINT_TRY(const ModelOptions resolved, resolve(running, cli_, false));
    GLINT_TRY(tokenizer_, Tokenizer::open(running.model));
    GLINT_TRY_STATUS(read_prompts(running.model));

    GLINT_TRY(std::unique_ptr<Ops> trainer_ops, make_backend(running, cli_));
    GLINT_TRY(trainer_, Trainer::open({.model = resolved, .adamw = options_.adamw()},
                                      std::move(trainer_ops)));
    if (latest) {
      GLINT_TRY(const Json state, trainer_->restore(*latest));
      GLINT_TRY_STATUS(take_up(state));
    }
    GLINT_TRY_STATUS(open_engine(running, resolved));
    GLINT_TRY(record_, GrpoRecord::open({.dir = options_.save,
                                         .tensorboard_dir = options_.tensorboard_dir,
                                         .port = options_.port,
                                         .page = {.model = options_.model,
                                                  .rounds_done = round_,
                                                  .rounds = options_.num_rollout}}));

    GrpoOptions grpo = options_.grpo();
    grpo.rollout.stop_ids = stop_ids(engine_->config(), engine_->generation());
    grpo.rollout.num_token_ids = tokenizer_->vocab_size();
    rollout_ = grpo.rollout;
    if (options_.kl_loss_coef != 0) {
      GLINT_TRY_STATUS(open_reference(options_.ref_load.empty() ? base : options_.ref_load));
      grpo.reference = &*reference_.pass;
    }
    grpo_.emplace(*engine_, trainer_->pass(), *tokenizer_, rule_ ? &*rule_ : nullptr, grpo);
    order_.emplace(prompts_.size(), options_.seed, options_.rollout_shuffle);
    return Ok{};
  }

  // Weights as the engine answers with them.
  Result<Checkpoint> engine_weights() {
    Checkpoint weights = trainer_->weights().checkpoint();
    if (!options_.is_quantized()) return weights;
    const Recipe recipe = options_.fp8_rollout
                              ? Recipe{.format = TargetFormat::kFp8, .scope = Scope::kAllLinear}
                              : Recipe{.format = TargetFormat::kNvfp4, .scope = Scope::kExperts};
    return quantize_in_memory(std::move(weights), trainer_->model().config(), recipe, *pool_);
  }

  Status open_engine(const RunOptions& running, const ModelOptions& resolved) {
    GLINT_TRY(std::unique_ptr<Ops> ops, make_backend(running, cli_));
    pool_.emplace(std::max(resolved.threads, 1));
    GLINT_TRY(Checkpoint weights, engine_weights());
    ModelOptions of_engine = resolved;
    GLINT_TRY(const int drafts, parse_spec(options_.spec));
    of_engine.with_mtp = drafts > 0;
    GLINT_TRY(engine_, load_model(of_engine, std::move(ops), cli_, std::move(weights)));
    if (drafts > 0 && !engine_->has_mtp()) {
      return invalid(options_.model + " has no MTP layer; leave --spec out");
    }
    return Ok{};
  }

  Status open_reference(const std::string& dir) {
    const RunOptions running = options_.how.of_model(dir);
    GLINT_TRY(const ModelOptions resolved, resolve(running, cli_, false));
    GLINT_TRY(std::unique_ptr<Ops> ops, make_backend(running, cli_));
    auto tape = std::make_unique<TapeOps>(std::move(ops));
    TapeOps& its = *tape;
    GLINT_TRY(reference_.model, load_model(resolved, std::move(tape), cli_));
    if (reference_.model->config().vocab_size != trainer_->model().config().vocab_size) {
      return invalid(str(dir, " has ", reference_.model->config().vocab_size, " tokens, the model ",
                         trainer_->model().config().vocab_size,
                         "; a reference model has the same"));
    }
    reference_.pass.emplace(*reference_.model, its);
    return Ok{};
  }

  Status read_prompts(const std::string& dir) {
    GLINT_TRY(const ModelConfig config, read_config(dir + "/config.json"));
    const auto positions = static_cast<int>(config.max_position_embeddings);
    PromptDataOptions data = {.path = options_.prompt_data,
                              .dir = dir,
                              .input_key = options_.input_key,
                              .label_key = options_.label_key,
                              .apply_chat_template = options_.apply_chat_template,
                              .max_prompt_tokens = positions - options_.rollout_max_response_len,
                              .prepare = [&](const Json& messages, const Json& tools) {
                                return read_chat_messages(messages, tools, config.vocab_size);
                              }};
    if (data.max_prompt_tokens < 1) {
      return invalid(str("--rollout-max-response-len is ", options_.rollout_max_response_len,
                         "; the model has ", positions, " positions for prompt and answer"));
    }
    GLINT_TRY(prompts_, read_train_prompts(data));
    if (options_.eval_prompt_data.empty()) return Ok{};
    data.path = options_.eval_prompt_data;
    GLINT_TRY(eval_prompts_, read_train_prompts(data));
    return Ok{};
  }

  // Goes on where a checkpoint was written.
  Status take_up(const Json& state) {
    const Json *const round = state.find("round"), *const prompts = state.find("prompts_used");
    const Json* const options = state.find("options");
    if (!round || !round->is_int() || !prompts || !prompts->is_int() || !options) {
      return invalid(str(options_.save, " is no run of `glint train grpo`"));
    }
    const Json mine = options_.fingerprint();
    for (const auto& [name, value] : mine.as_object()) {
      const Json* const theirs = options->find(name);
      if (theirs && *theirs == value) continue;
      return invalid(str("--", name, " is ", dump_json(value), "; the run to go on with had ",
                         theirs ? dump_json(*theirs) : "none"));
    }
    const Json* const hash = state.find("prompts_fnv1a");
    if (!hash || *hash != Json(hash_of(prompts_))) {
      return invalid(str(options_.prompt_data, " has other prompts than the run in ", options_.save,
                         " began with; give those, or another --save"));
    }
    round_ = round->as_int();
    prompts_used_ = static_cast<std::uint64_t>(prompts->as_int());
    return Ok{};
  }

  Json state() const {
    return Json::Object{{"round", round_},
                        {"prompts_used", static_cast<std::int64_t>(prompts_used_)},
                        {"prompts_fnv1a", hash_of(prompts_)},
                        {"options", options_.fingerprint()}};
  }

  bool goes_on() {
    interrupted_ = interrupted_ || shutdown_.wait_for(0);
    return !interrupted_;
  }

  Status loop() {
    const auto start = Clock::now();
    const std::int64_t first = round_;
    if (round_ == 0) {
      GLINT_TRY_STATUS(evaluate());
    }
    while (round_ < options_.num_rollout) {
      GLINT_TRY_STATUS(do_round());
      const double left = seconds_since(start) / static_cast<double>(round_ - first) *
                          static_cast<double>(options_.num_rollout - round_);
      cli_.console.print(str(line_, formatted("; %.0f min left\n", std::ceil(left / 60))));
      cli_.console.flush();
      const bool last = round_ == options_.num_rollout;
      if (last || (options_.save_interval > 0 && round_ % options_.save_interval == 0)) {
        GLINT_TRY_STATUS(save());
      }
      if (last || (options_.eval_interval > 0 && round_ % options_.eval_interval == 0)) {
        GLINT_TRY_STATUS(evaluate());
      }
      GLINT_TRY_STATUS(record_->write_page(left));
    }
    return Ok{};
  }

  Status do_round() {
    const GradientPass::OnPart on_part = [this] { return goes_on(); };
    const auto begin = Clock::now();
    GLINT_TRY(GrpoBatch batch,
              grpo_->roll_out(prompts_, *order_, prompts_used_, [this](int) { return goes_on(); }));
    const double rollout_s = seconds_since(begin);
    const auto trained_from = Clock::now();
    RoundFigures figures = {.has_kl = options_.kl_loss_coef != 0,
                            .has_weights = options_.use_tis || options_.use_icepop,
                            .rollout_s = rollout_s};
    GLINT_TRY(figures.parity, grpo_->verify(batch, static_cast<std::uint64_t>(round_), on_part));
    GLINT_TRY_STATUS(grpo_->set_old_log_probs(batch, on_part));
    Grpo::Sums& sums = figures.sums;
    for (int i = 0; i < grpo_->steps_of_round(); ++i) {
      // After its first step a round is finished, whatever signal comes: what is saved is always of
      // whole rounds.
      GLINT_TRY(const Grpo::Sums one,
                grpo_->add_gradient(batch, i, i == 0 ? on_part : GradientPass::OnPart()));
      sums.policy.add(one.policy);
      sums.entropy += one.entropy;
      sums.answers += one.answers;
      sums.tokens += one.tokens;
      const LearningRate rate = options_.learning_rate(grpo_->steps_of_round());
      GLINT_TRY(figures.step, trainer_->step(rate.at(trainer_->steps_done() + 1)));
    }
    figures.train_s = seconds_since(trained_from);
    const auto updated_from = Clock::now();
    GLINT_TRY(Checkpoint weights, engine_weights());
    GLINT_TRY_STATUS(engine_->update_weights(std::move(weights)));
    figures.update_s = seconds_since(updated_from);
    prompts_used_ += batch.prompts_used;
    ++round_;
    unsaved_ = true;
    return report(batch, figures);
  }

  Status report(const GrpoBatch& batch, const RoundFigures& figures) {
    line_ = formatted(
        "round %lld of %d: reward %.3f, %.1f tokens an answer, parity: %lld of %lld "
        "log-probabilities differ, entropy %.3f, grad norm %.2f, %.1f s (rollout %.1f, training "
        "%.1f)",
        static_cast<long long>(round_), options_.num_rollout, batch.mean_reward(),
        batch.mean_length(), static_cast<long long>(figures.parity.differ),
        static_cast<long long>(figures.parity.tokens), figures.per_token(figures.sums.entropy),
        figures.step.grad_norm, figures.seconds(), figures.rollout_s, figures.train_s);
    return record_->add_round(batch, figures);
  }

  Status evaluate() {
    if (eval_prompts_.empty()) return Ok{};
    RolloutOptions how = rollout_;
    how.temperature = options_.eval_temperature;
    how.top_p = 1;
    how.top_k = 0;
    how.routes = false;
    const auto begin = Clock::now();
    GLINT_TRY(const GrpoEval eval,
              grpo_->evaluate(eval_prompts_, options_.n_samples_per_eval_prompt, how,
                              [this](int) { return goes_on(); }));
    cli_.console.print(
        formatted("eval after %lld rounds: reward %.4f of %lld answers, %.1f tokens each, %.1f s\n",
                  static_cast<long long>(round_), eval.reward, static_cast<long long>(eval.answers),
                  eval.response_tokens, seconds_since(begin)));
    cli_.console.flush();
    return record_->add_eval(eval, seconds_since(begin));
  }

  Status save() {
    GLINT_TRY_STATUS(trainer_->save(options_.save, state()));
    unsaved_ = false;
    cli_.console.print(str("saved ", options_.save, "/step-", trainer_->steps_done(), "\n"));
    cli_.console.flush();
    return Ok{};
  }

  const GrpoCommandOptions& options_;
  Cli& cli_;
  ShutdownGuard shutdown_;
  bool interrupted_ = false, unsaved_ = false;
  std::optional<Reward> rule_;
  std::optional<Tokenizer> tokenizer_;
  std::vector<TrainPrompt> prompts_, eval_prompts_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<LoadedModel> engine_;  // reads what is not packed from the trainer's memory
  struct Reference {
    std::unique_ptr<LoadedModel> model;
    std::optional<GradientPass> pass;
  } reference_;
  std::optional<ThreadPool> pool_;  // of the quantiser
  std::optional<GrpoRecord> record_;
  RolloutOptions rollout_;
  std::optional<Grpo> grpo_;
  std::optional<RowOrder> order_;
  std::int64_t round_ = 0;  // rounds done
  std::uint64_t prompts_used_ = 0;
  std::string line_;
};

Status run(const GrpoCommandOptions& options, Cli& cli) {
  GLINT_TRY_STATUS(check(options));
  return Run(options, cli).run();
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
           "serve` takes them); DIR/metrics.jsonl has a line a round. SIGTERM and Ctrl-C end the "
           "round and save. Names are those of miles and slime.",
       .examples = {{"glint train grpo MODEL --prompt-data F.jsonl --rm-type math "
                     "--num-rollout 60 --save out",
                     "60 rounds of 32 problems, 8 answers each"},
                    {"glint train grpo MODEL --prompt-data F.jsonl --rm-type math "
                     "--num-rollout 60 --save out --resume",
                     "go on, or begin: the same line after a crash"}}},
      run);
}

}  // namespace glint
