#include "cli/grpo_models.h"

#include "base/str.h"
#include "cli/generate_options.h"
#include "quant/quantize_in_memory.h"

namespace glint {

Result<Json> GrpoModels::open(const std::string& dir, bool restore) {
  running_ = options_.how.of_model(dir);
  GLINT_TRY(resolved_, resolve(running_, cli_, false));
  GLINT_TRY(TrainLayout layout, lay_out(options_.layout.shape(), running_, resolved_, cli_));
  GLINT_TRY(trainer_, Trainer::open({.model = layout.model, .adamw = options_.adamw()},
                                    std::move(layout.backends)));
  if (!restore) return Json();
  return trainer_->restore(dir);
}

OpenedModel GrpoModels::with_trained(Checkpoint weights) {
  const LoadedModel& trained = trainer_->model();
  return {.config = trained.config(),
          .generation = trained.generation(),
          .checkpoint = std::move(weights)};
}

Result<GrpoModels::Scorer> GrpoModels::open_scorer(const std::string& dir,
                                                   std::optional<Checkpoint> weights) {
  const RunOptions running = options_.how.of_model(dir);
  GLINT_TRY(const ModelOptions resolved, resolve(running, cli_, false));
  GLINT_TRY(std::unique_ptr<Backend> backend, make_backend(running, cli_));
  DecoratedBackend taped(std::move(backend));
  TapeOps& tape = TapeOps::decorate(taped);
  Scorer scorer;
  std::optional<OpenedModel> opened;
  if (weights) opened = with_trained(std::move(*weights));
  GLINT_TRY(scorer.model, load_model(resolved, std::move(taped), cli_, std::move(opened)));
  scorer.pass = std::make_unique<GradientPass>(*scorer.model, tape);
  return scorer;
}

Status GrpoModels::open_engine(const std::string& base) {
  pool_.emplace(std::max(resolved_.threads, 1));
  if (options_.async_rollout) {
    GLINT_TRY(copy_, trainer_->weights().copy());
    GLINT_TRY(answering_, open_scorer(running_.model, copy_->checkpoint()));
  }
  GLINT_TRY(std::unique_ptr<Backend> backend, make_backend(running_, cli_));
  GLINT_TRY(Checkpoint weights, engine_weights());
  ModelOptions of_engine = resolved_;
  GLINT_TRY(const int drafts, parse_spec(options_.spec));
  of_engine.with_mtp = drafts > 0;
  GLINT_TRY(engine_,
            load_model(of_engine, std::move(backend), cli_, with_trained(std::move(weights))));
  if (drafts > 0 && !engine_->has_mtp()) {
    return invalid(options_.model + " has no MTP layer; leave --spec out");
  }
  if (options_.kl_loss_coef == 0) return Ok{};
  const std::string dir = options_.ref_load.empty() ? base : options_.ref_load;
  GLINT_TRY(reference_, open_scorer(dir, {}));
  const int own = trainer_->model().config().vocab_size;
  if (reference_.model->config().vocab_size != own) {
    return invalid(str(dir, " has ", reference_.model->config().vocab_size, " tokens, the model ",
                       own, "; a reference model has the same"));
  }
  return Ok{};
}

// Weights as the engine answers with them.
Result<Checkpoint> GrpoModels::engine_weights() {
  Checkpoint weights = copy_ ? copy_->checkpoint() : trainer_->weights().checkpoint();
  if (!options_.is_quantized()) return weights;
  const Recipe recipe = options_.fp8_rollout
                            ? Recipe{.format = TargetFormat::kFp8, .scope = Scope::kAllLinear}
                            : Recipe{.format = TargetFormat::kNvfp4, .scope = Scope::kExperts};
  return quantize_in_memory(std::move(weights), trainer_->model().config(), recipe, *pool_);
}

Status GrpoModels::update_engine() {
  if (copy_) {
    copy_->take(trainer_->weights());
    GLINT_TRY_STATUS(answering_.model->update_weights(copy_->checkpoint()));
  }
  GLINT_TRY(Checkpoint weights, engine_weights());
  return engine_->update_weights(std::move(weights));
}

}  // namespace glint
