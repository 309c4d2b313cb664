#include "cli/grpo_models.h"

#include <algorithm>

#include "base/str.h"
#include "checkpoint/checksum.h"
#include "cli/generate_options.h"
#include "cli/served_ranks.h"
#include "quant/quantize_in_memory.h"
#include "train/peer_followers.h"

namespace glint {

GrpoModels::~GrpoModels() {
  if (files_ && !options_.is_elsewhere() && peers_.is_first()) files_->remove_all();
}

Result<Json> GrpoModels::open(const std::string& dir, OpenedModel opened, bool restore) {
  GLINT_TRY(const int drafts, parse_spec(options_.spec));
  GLINT_TRY_STATUS(check_mtp(opened, options_.model, drafts > 0, "spec"));
  const bool drafts_learn = options_.enable_mtp_training;
  GLINT_TRY_STATUS(check_mtp(opened, options_.model, drafts_learn, "enable-mtp-training"));
  running_ = options_.how.of_model(dir);
  GLINT_TRY(resolved_, resolve(running_, cli_, drafts_learn));
  GLINT_TRY(LaidOutRanks layout,
            lay_out(options_.layout.shape(), running_, resolved_, cli_, peers_));
  running_.backend = layout.backend;
  GLINT_TRY(trainer_, Trainer::open({.model = layout.model,
                                     .adamw = options_.optimizer.adamw(),
                                     .peers = peers_,
                                     .gathers = answers_beside()},
                                    std::move(layout.backends), {}, std::move(opened)));
  if (peers_.is_first()) note_untrained(trainer_->model(), cli_);
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

Result<std::unique_ptr<TrainRanks>> GrpoModels::open_scorer(const std::string& dir,
                                                            OpenedModel opened) {
  RunOptions running = running_;
  running.model = dir;
  GLINT_TRY(const ModelOptions resolved, resolve(running, cli_, false));
  GLINT_TRY(LaidOutRanks layout, lay_out(options_.layout.shape(), running, resolved, cli_, peers_));
  return TrainRanks::open(layout.model, std::move(layout.backends), {}, std::move(opened), peers_);
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
  GLINT_TRY(reference_, open_scorer(dir, std::move(opened)));
  return checksum;
}

Status GrpoModels::open_engine(std::function<bool()> goes_on) {
  if (options_.async_rollout) GLINT_TRY_STATUS(open_answering());
  if (options_.is_elsewhere() || (options_.is_quantized() && is_over_processes())) {
    files_.emplace(rollout_folder(), recipe());
    GLINT_TRY_STATUS(files_->write(*trainer_));
  }
  if (is_over_processes()) {
    GLINT_TRY_STATUS(load_engine());
  } else {
    GLINT_TRY_STATUS(peers_.on_first([&] {
      return options_.is_elsewhere() ? open_servers(std::move(goes_on)) : load_engine();
    }));
  }
  return settle_files();
}

Status GrpoModels::open_answering() {
  GLINT_TRY(copy_, trainer_->weights().copy(peers_));
  GLINT_TRY(answering_, open_scorer(running_.model, with_trained(copy_->checkpoint())));
  return Ok{};
}

// The layout of training, but with replicas that all have sequences of their own; on a host that
// threads share, and of the first process alone, without replicas that no expert needs.
MeshShape GrpoModels::engine_shape() const {
  MeshShape shape = options_.layout.shape();
  shape.cp = 1;
  // There each replica would read the same weights for fewer answers.
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
  GLINT_TRY(const Checkpoint weights, engine_weights());
  for (int i = 0; i < engine_->size(); ++i) {
    one.rank = engine_->first() + i;
    one.mesh = engine_->mesh(i);
    each.device = device_of_rank(one.rank, here);
    GLINT_TRY(std::unique_ptr<Backend> backend, make_backend(each));
    GLINT_TRY(std::unique_ptr<LoadedModel> model,
              load_model(one, std::move(backend), cli_, with_trained(weights.again())));
    engine_->add(std::move(model));
  }
  return Ok{};
}

Status GrpoModels::open_servers(std::function<bool()> goes_on) {
  GLINT_TRY(const Tokenizer tokenizer, Tokenizer::open(running_.model));
  ExternalEngineOptions how = {
      .addresses = options_.rollout_external_engine_addrs,
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
  return servers_->load(files_->dir());
}

// The recipe of the weights that answer, with the defaults of `glint quantize`; none: as the
// trainer has them.
std::optional<Recipe> GrpoModels::recipe() const {
  if (options_.fp8_rollout) {
    return Recipe{
        .format = TargetFormat::kFp8, .scope = Scope::kAllLinear, .mtp = MtpChoice::kConvert};
  }
  if (!options_.nvfp4_rollout) return std::nullopt;
  return Recipe{.format = TargetFormat::kNvfp4, .scope = Scope::kExperts};
}

Result<Checkpoint> GrpoModels::engine_weights() {
  if (files_) return Checkpoint::open(files_->dir());
  Checkpoint weights = copy_ ? copy_->checkpoint() : trainer_->weights().checkpoint();
  if (!options_.is_quantized()) return weights;
  if (!pool_) pool_.emplace(std::max(resolved_.threads, 1));
  return quantize_in_memory(std::move(weights), trainer_->model().config(), *recipe(), *pool_);
}

Status GrpoModels::update_engine() {
  if (answers_beside()) trainer_->gather_weights();
  if (copy_) GLINT_TRY_STATUS(take_copy());
  if (files_) GLINT_TRY_STATUS(files_->write(*trainer_));
  if (is_over_processes()) {
    if (!files_ && engine_->model(0).has_mtp()) trainer_->give_embedding();
    GLINT_TRY_STATUS(peers_.agree(take_weights()));
  } else {
    GLINT_TRY_STATUS(
        peers_.on_first([&] { return servers_ ? servers_->load(files_->dir()) : take_weights(); }));
  }
  return settle_files();
}

// All engines have the newest weights, and nobody reads older ones any more.
Status GrpoModels::settle_files() {
  if (!files_) return Ok{};
  if (is_over_processes()) {
    GLINT_TRY_STATUS(peers_.expect_same_files(files_->dir(), engine_->model(0).fingerprint()));
  }
  if (peers_.is_first()) files_->remove_older();
  return Ok{};
}

Status GrpoModels::take_copy() {
  copy_->take(trainer_->weights());
  Status all = Ok{};
  for (int rank = 0; rank < answering_->size() && all.ok(); ++rank) {
    all = answering_->model(rank).update_weights(copy_->checkpoint());
  }
  return peers_.agree(all);
}

Status GrpoModels::take_weights() {
  followers_.reset();
  GLINT_TRY(const Checkpoint weights, engine_weights());
  for (int rank = 0; rank < engine_->size(); ++rank) {
    GLINT_TRY_STATUS(engine_->model(rank).update_weights(weights.again()));
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
  follow_first(peers_, [&](const RankCommand& command) { return model.follow(command); });
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
