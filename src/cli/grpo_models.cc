#include "cli/grpo_models.h"

#include <algorithm>

#include "base/str.h"
#include "checkpoint/checksum.h"
#include "cli/generate_options.h"
#include "cli/served_ranks.h"
#include "quant/quantize_in_memory.h"
#include "train/peer_followers.h"

namespace glint {

Result<Json> GrpoModels::open(const std::string& dir, OpenedModel opened, bool restore) {
  GLINT_TRY(const int drafts, parse_spec(options_.spec));
  GLINT_TRY_STATUS(check_mtp(opened, options_.model, drafts > 0, "spec"));
  running_ = options_.how.of_model(dir);
  GLINT_TRY(resolved_, resolve(running_, cli_, false));
  GLINT_TRY(LaidOutRanks layout,
            lay_out(options_.layout.shape(), running_, resolved_, cli_, peers_));
  running_.backend = layout.backend;
  GLINT_TRY(trainer_, Trainer::open({.model = layout.model,
                                     .adamw = options_.adamw(),
                                     .peers = peers_,
                                     .gathers = !is_over_all()},
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
  const int own = trainer_->model().config().vocab_size, theirs = opened.config.vocab_size;
  if (theirs != own) {
    return invalid(
        str(dir, " has ", theirs, " tokens, the model ", own, "; a reference model has the same"));
  }
  GLINT_TRY(const std::string checksum, peers_.on_first_text([&]() -> Result<std::string> {
    return checksum_of(opened.checkpoint->source(), trainer_->ranks().pool());
  }));
  RunOptions running = running_;
  running.model = dir;
  GLINT_TRY(const ModelOptions resolved, resolve(running, cli_, false));
  GLINT_TRY(LaidOutRanks layout, lay_out(options_.layout.shape(), running, resolved, cli_, peers_));
  GLINT_TRY(reference_, TrainRanks::open(layout.model, std::move(layout.backends), {},
                                         std::move(opened), peers_));
  return checksum;
}

bool GrpoModels::is_over_all() const {
  return !options_.async_rollout && !options_.is_quantized() && !options_.is_elsewhere();
}

Status GrpoModels::open_engine(std::function<bool()> goes_on) {
  if (is_over_processes()) return load_engine();
  return peers_.on_first([&] { return open_of_first(std::move(goes_on)); });
}

Status GrpoModels::open_of_first(std::function<bool()> goes_on) {
  pool_.emplace(std::max(resolved_.threads, 1));
  if (options_.async_rollout) {
    GLINT_TRY(copy_, trainer_->weights().copy());
    GLINT_TRY(answering_, open_scorer(running_.model, with_trained(copy_->checkpoint())));
  }
  return options_.is_elsewhere() ? open_servers(std::move(goes_on)) : load_engine();
}

void GrpoModels::open_scores() {
  if (!options_.async_rollout) return;
  answering_.scores = std::make_unique<ScoresOfFirst>(peers_, answering_.pass.get());
}

// That which trains, whose shards all have sequences of their own; on a host that threads share,
// and of the first process alone, without shards that no expert needs.
MeshShape GrpoModels::engine_shape() const {
  MeshShape shape = options_.layout.shape();
  shape.cp = 1;
  // There each shard would read the same weights for fewer answers.
  const bool share_host = peers_.is_alone() && trainer_->model().ops().device().is_host();
  if (!is_over_all() || share_host) shape.dp = std::max(shape.ep / shape.tp, 1);
  return shape;
}

// The engine's own copy, in the order of its kernels, where gradients and passes leave room.
Packing GrpoModels::packing(std::int64_t keep_free) const {
  if (!is_over_processes()) return Packing::kIfRoom;
  // All look before one takes any.
  const std::int64_t bytes = trainer_->model().load_stats().held_bytes + keep_free / peers_.size();
  return peers_.expect_memory("a copy takes", bytes).ok() ? Packing::kAlways : Packing::kNever;
}

Status GrpoModels::load_engine() {
  ModelOptions one = resolved_;
  GLINT_TRY(const int drafts, parse_spec(options_.spec));
  one.with_mtp = drafts > 0;
  one.keep_free = OptimizerPart::bytes(trainer_->ranks().num_trained());
  one.packing = packing(*one.keep_free);
  one.shape = engine_shape();
  Mesh mesh = peers_.mesh();
  mesh.cp = &self_comm();
  engine_ = is_over_processes() ? std::make_unique<Ranks>(one.shape, peers_.rank(), mesh)
                                : std::make_unique<Ranks>(one.shape);
  Status loaded = load_ranks(one);
  if (is_over_processes()) loaded = peers_.agree(loaded);
  GLINT_TRY_STATUS(loaded);
  followers_.emplace(*engine_);
  here_ = std::make_unique<EngineHere>(engine_->model(0));
  rollouts_ = here_.get();
  return Ok{};
}

Status GrpoModels::load_ranks(ModelOptions one) {
  const int here = is_over_processes() ? peers_.here() : engine_->size();
  one.ranks_here = here;
  GLINT_TRY(BackendOptions each, backend_options(running_, cli_));
  each.threads = one.threads = std::max(resolved_.threads / here, 1);
  for (int i = 0; i < engine_->size(); ++i) {
    one.rank = engine_->first() + i;
    one.mesh = engine_->mesh(i);
    each.device = device_of_rank(one.rank, here);
    GLINT_TRY(std::unique_ptr<Backend> backend, make_backend(each));
    GLINT_TRY(Checkpoint weights, engine_weights());
    GLINT_TRY(std::unique_ptr<LoadedModel> model,
              load_model(one, std::move(backend), cli_, with_trained(std::move(weights))));
    engine_->add(std::move(model));
  }
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
  if (is_over_processes()) {
    if (engine_->model(0).has_mtp()) trainer_->give_embedding();
    return peers_.agree(take_weights());
  }
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

void GrpoModels::follow_engine() {
  if (!is_over_processes()) return;
  // The trainer and the engine have the same groups, one at a time.
  trainer_->model().ops().device().synchronize();
  if (peers_.is_first()) return;
  LoadedModel& model = engine_->model(0);
  follow_first(peers_, [&](const RankPass& pass) { return model.follow(pass); });
  model.ops().device().synchronize();
}

// While it lives the engine's other processes follow the first one's.
class GrpoModels::Session {
 public:
  explicit Session(GrpoModels& models) {
    if (!models.is_over_processes()) return;
    model_ = &models.engine_->model(0);
    model_->set_followers(&others_.emplace(models.peers_));
  }
  ~Session() {
    if (model_) model_->set_followers(nullptr);
  }
  Session(const Session&) = delete;

 private:
  LoadedModel* model_ = nullptr;
  std::optional<PeerFollowers> others_;
};

Status GrpoModels::on_engine(const std::function<Status()>& work) {
  follow_engine();
  return peers_.on_first([&] {
    const Session session(*this);
    return work();
  });
}

Result<std::string> GrpoModels::on_engine_text(const std::function<Result<std::string>()>& work) {
  follow_engine();
  return peers_.on_first_text([&] {
    const Session session(*this);
    return work();
  });
}

}  // namespace glint
