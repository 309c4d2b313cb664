#include "cli/grpo_models.h"

#include <algorithm>

#include "base/str.h"
#include "checkpoint/checksum.h"
#include "cli/generate_options.h"
#include "cli/served_ranks.h"
#include "quant/quantize_in_memory.h"

namespace glint {

Result<Json> GrpoModels::open(const std::string& dir, OpenedModel opened, bool restore) {
  GLINT_TRY(const int drafts, parse_spec(options_.spec));
  GLINT_TRY_STATUS(check_mtp(opened, options_.model, drafts > 0, "spec"));
  running_ = options_.how.of_model(dir);
  GLINT_TRY(resolved_, resolve(running_, cli_, false));
  GLINT_TRY(LaidOutRanks layout,
            lay_out(options_.layout.shape(), running_, resolved_, cli_, peers_));
  running_.backend = layout.backend;
  GLINT_TRY(trainer_,
            Trainer::open({.model = layout.model, .adamw = options_.adamw(), .peers = peers_},
                          std::move(layout.backends), {}, std::move(opened)));
  if (!restore) return Json();
  return trainer_->restore(dir);
}

OpenedModel GrpoModels::with_trained(Checkpoint weights) {
  const LoadedModel& trained = trainer_->model();
  return {.config = trained.config(),
          .generation = trained.generation(),
          .checkpoint = std::move(weights),
          .sources = Sources::kKeep};
}

Result<GrpoModels::Scorer> GrpoModels::open_scorer(const std::string& dir, OpenedModel opened) {
  RunOptions running = running_;
  running.model = dir;
  GLINT_TRY(ModelOptions resolved, resolve(running, cli_, false));
  // The bits of ranks that divide sums, on one.
  resolved.shape.reduce_slices = options_.layout.tp;
  GLINT_TRY(std::unique_ptr<Backend> backend, make_backend(running, cli_));
  DecoratedBackend taped(std::move(backend));
  TapeOps& tape = TapeOps::decorate(taped);
  Scorer scorer;
  GLINT_TRY(scorer.model, load_model(resolved, std::move(taped), cli_, std::move(opened)));
  scorer.pass = std::make_unique<GradientPass>(*scorer.model, tape);
  return scorer;
}

Result<std::string> GrpoModels::open_reference(const std::string& dir) {
  if (options_.kl_loss_coef == 0) return std::string();
  GLINT_TRY(OpenedModel opened, open_model(dir, ModelFiles::kAll));
  const std::string checksum = checksum_of(opened.checkpoint->source(), trainer_->ranks().pool());
  GLINT_TRY(reference_, open_scorer(dir, std::move(opened)));
  const int own = trainer_->model().config().vocab_size;
  if (reference_.model->config().vocab_size != own) {
    return invalid(str(dir, " has ", reference_.model->config().vocab_size, " tokens, the model ",
                       own, "; a reference model has the same"));
  }
  return checksum;
}

Status GrpoModels::open_engine(std::function<bool()> goes_on) {
  pool_.emplace(std::max(resolved_.threads, 1));
  if (options_.async_rollout) {
    GLINT_TRY(copy_, trainer_->weights().copy());
    GLINT_TRY(answering_, open_scorer(running_.model, with_trained(copy_->checkpoint())));
  }
  return options_.is_elsewhere() ? open_servers(std::move(goes_on)) : load_engine();
}

void GrpoModels::open_scores() {
  const auto open = [&](Scorer& scorer, bool is_there) {
    if (is_there) scorer.scores = std::make_unique<ScoresOfFirst>(peers_, scorer.pass.get());
  };
  open(answering_, options_.async_rollout);
  open(reference_, options_.kl_loss_coef != 0);
}

// Over ranks that divide the model as those that train do, all in this process; shards that only
// share sequences are one.
Status GrpoModels::load_engine() {
  const MeshShape trained = options_.layout.shape();
  ModelOptions one = resolved_;
  GLINT_TRY(const int drafts, parse_spec(options_.spec));
  one.with_mtp = drafts > 0;
  // The engine's own copy, in the order of its kernels, where gradients and passes leave room.
  one.packing = Packing::kIfRoom;
  one.keep_free = OptimizerPart::bytes(trainer_->ranks().num_trained());
  one.shape = {.tp = trained.tp,
               .ep = trained.ep,
               .pp = trained.pp,
               .dp = std::max(trained.ep / trained.tp, 1)};
  GLINT_TRY(BackendOptions each, backend_options(running_, cli_));
  each.threads = one.threads = std::max(resolved_.threads / one.shape.num_ranks(), 1);
  engine_ = std::make_unique<Ranks>(one.shape);
  for (one.rank = 0; one.rank < engine_->size(); ++one.rank) {
    one.mesh = engine_->mesh(one.rank);
    each.device = device_of_rank(one.rank, engine_->size());
    GLINT_TRY(std::unique_ptr<Backend> backend, make_backend(each));
    GLINT_TRY(Checkpoint weights, engine_weights());
    GLINT_TRY(std::unique_ptr<LoadedModel> model,
              load_model(one, std::move(backend), cli_, with_trained(std::move(weights))));
    engine_->add(std::move(model));
  }
  followers_.emplace(*engine_);
  here_ = std::make_unique<EngineHere>(engine_->model(0));
  rollouts_ = here_.get();
  return Ok{};
}

Status GrpoModels::open_servers(std::function<bool()> goes_on) {
  GLINT_TRY(const Tokenizer tokenizer, Tokenizer::open(running_.model));
  ExternalEngineOptions how = {
      .addresses = options_.rollout_external_engine_addrs,
      .folder = options_.save + "/rollout-weights",
      .api_key = cli_.environment.api_key,
      .seconds = options_.rollout_external_timeout,
      .vocabulary = tokenizer.vocabulary_checksum(),
      .goes_on = std::move(goes_on),
      .tell = [this](const std::string& line) { cli_.console.note(line); }};
  // Where log-probabilities may be apart, programs may be others.
  if (options_.parity_gate == 0) {
    GLINT_TRY(how.build, program_build());
  }
  GLINT_TRY(servers_, ExternalEngines::open(std::move(how), trainer_->model().config()));
  rollouts_ = servers_.get();
  return give_servers_weights();
}

Status GrpoModels::give_servers_weights() {
  GLINT_TRY(const Checkpoint weights, engine_weights());
  return servers_->load(weights, running_.model, trainer_->steps_done());
}

// Weights as the engine answers with them: quantised as `glint quantize` does it by default.
Result<Checkpoint> GrpoModels::engine_weights() {
  Checkpoint weights = copy_ ? copy_->checkpoint() : trainer_->weights().checkpoint();
  if (!options_.is_quantized()) return weights;
  const Recipe recipe = options_.fp8_rollout
                            ? Recipe{.format = TargetFormat::kFp8,
                                     .scope = Scope::kAllLinear,
                                     .mtp = MtpChoice::kConvert}
                            : Recipe{.format = TargetFormat::kNvfp4, .scope = Scope::kExperts};
  return quantize_in_memory(std::move(weights), trainer_->model().config(), recipe, *pool_);
}

Status GrpoModels::update_engine() {
  trainer_->gather_weights();
  return peers_.on_first([this] { return take_weights(); });
}

Status GrpoModels::take_weights() {
  if (copy_) {
    copy_->take(trainer_->weights());
    GLINT_TRY_STATUS(answering_.model->update_weights(copy_->checkpoint()));
  }
  if (servers_) return give_servers_weights();
  followers_.reset();
  for (int rank = 0; rank < engine_->size(); ++rank) {
    GLINT_TRY(Checkpoint weights, engine_weights());
    GLINT_TRY_STATUS(engine_->model(rank).update_weights(std::move(weights)));
  }
  followers_.emplace(*engine_);
  return Ok{};
}

}  // namespace glint
