#include "runtime/loaded_model.h"

#include <chrono>

#include "base/file.h"
#include "base/str.h"
#include "base/thread_pool.h"
#include "model/synthetic.h"
#include "runtime/batch.h"

namespace glint {
namespace {

Result<Checkpoint> make_dummy(const ModelConfig& config, Release release, ThreadPool& pool,
                              const LoadProgress& progress) {
  constexpr std::uint64_t kSeed = 0;
  GLINT_TRY(const SyntheticModel model, SyntheticModel::plan(config, release, kSeed));
  return make_dummy_checkpoint(model, pool, [&](std::int64_t bytes) {
    if (progress) progress(bytes, model.bytes());
  });
}

}  // namespace

LoadedModel::LoadedModel(ModelOptions options, std::unique_ptr<Ops> ops)
    : options_(std::move(options)),
      ops_(std::move(ops)),
      step_arena_(ops_->device()),
      draft_arenas_{Arena(ops_->device()), Arena(ops_->device())} {}

Result<std::unique_ptr<LoadedModel>> LoadedModel::load(const ModelOptions& options,
                                                       std::unique_ptr<Ops> ops,
                                                       const LoadProgress& progress) {
  std::unique_ptr<LoadedModel> m(new LoadedModel(options, std::move(ops)));
  const std::string config_file =
      options.dummy && file_exists(options.dir) ? options.dir : options.dir + "/config.json";
  GLINT_TRY(m->config_, read_config(config_file));
  GLINT_TRY(m->generation_, read_generation_config(options.dir + "/generation_config.json"));
  // What the configuration asks for is known before the first weight is read.
  Capabilities need = all_capabilities("");
  need.activations = {options.activations};
  need.latents = {options.latent};
  need.indexes = {options.index};
  need.weights = {};
  GLINT_TRY_STATUS(check_capabilities(m->ops_->capabilities(), need));

  ThreadPool pool(available_cpus());
  std::optional<Checkpoint> dummy;
  if (options.dummy) {
    GLINT_TRY(dummy, make_dummy(m->config_, *options.dummy, pool, progress));
  }
  const auto start = std::chrono::steady_clock::now();
  GLINT_TRY(Checkpoint checkpoint, dummy ? std::move(*dummy) : Checkpoint::open(options.dir));
  m->checkpoint_ = std::make_unique<Checkpoint>(std::move(checkpoint));
  const bool with_mtp = options.with_mtp && m->config_.num_nextn_predict_layers > 0;
  GLINT_TRY(m->weights_,
            find_weights(*m->checkpoint_, m->config_,
                         {.activations = options.activations, .with_mtp = with_mtp}, pool));
  need.weights = formats_of(m->weights_);
  GLINT_TRY_STATUS(check_capabilities(m->ops_->capabilities(), need));
  // Synthetic weights are in memory already: packing them takes no more of it.
  GLINT_TRY(m->load_stats_.placement,
            place_weights(m->weights_,
                          options.dummy && options.packing == Packing::kIfRoom ? Packing::kAlways
                                                                               : options.packing,
                          *m->ops_, options.dummy ? LoadProgress{} : progress));
  m->inv_freq_ = rope_inv_freq(m->config_.rope, m->config_.qk_rope_head_dim);
  m->load_stats_.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  m->count_files();
  return m;
}

void LoadedModel::count_files() {
  const TensorSource& source = checkpoint_->source();
  for (const StoredTensor& tensor : source.tensors()) {
    load_stats_.bytes += static_cast<std::int64_t>(tensor.bytes.size());
    std::vector<std::string>& files = load_stats_.files;
    if (options_.dummy || static_cast<std::size_t>(tensor.file) < files.size()) continue;
    files.push_back(source.file_name(tensor.file));
  }
}

Status LoadedModel::reserve_pages(int num_pages) {
  kv_.reset();
  GLINT_TRY(KvStore store, KvStore::make(config_,
                                         {.latent = options_.latent,
                                          .index = options_.index,
                                          .num_pages = num_pages,
                                          .with_mtp = has_mtp()},
                                         ops_->device()));
  kv_.emplace(std::move(store));
  return Ok{};
}

std::span<const float> LoadedModel::to_host(const Tensor& logits) {
  host_logits_.resize(static_cast<std::size_t>(logits.size()));
  if (logits) {
    ops_->device().copy_out(host_logits_.data(), logits.data, host_logits_.size() * sizeof(float));
  }
  return host_logits_;
}

StepOutput LoadedModel::step(const StepPlan& plan, const LayerTap* tap) {
  step_scope_.emplace(step_arena_);
  const Batch batch = build_batch(plan, inv_freq_, step_arena_);
  const std::int64_t T = batch.token_ids.dim(0), R = batch.logit_rows.dim(0);
  const Tensor hidden = step_arena_.take(options_.activations, {T, config_.hidden_size});
  Tensor logits;
  if (R > 0) logits = step_arena_.take(DType::kF32, {R, config_.vocab_size});
  forward(model(),
          {.token_ids = batch.token_ids,
           .batch = batch.view,
           .logit_rows = batch.logit_rows,
           .hidden = hidden,
           .logits = logits,
           .tap = tap},
          step_arena_);
  return {.logits = to_host(logits), .hidden = hidden, .vocab = config_.vocab_size};
}

StepOutput LoadedModel::draft(const StepPlan& plan, const Tensor& target, DraftOptions options) {
  GLINT_CHECK(has_mtp(), "a draft needs an MTP layer");
  const int turn = next_draft_;
  next_draft_ ^= 1;
  Arena& arena = draft_arenas_[turn];
  draft_scopes_[turn].emplace(arena);
  // Position 0 has no embedding: the layer was trained on rows from position 1 on.
  StepPlan rows = plan;
  for (const SeqSlice& slice : rows.slices) {
    if (slice.first == 0 && slice.count > 0) rows.tokens[slice.token_begin] = -1;
  }
  const Batch batch = build_batch(rows, inv_freq_, arena);
  const std::int64_t T = batch.token_ids.dim(0), R = batch.logit_rows.dim(0);
  MtpArgs args = {.next_ids = batch.token_ids,
                  .target = target,
                  .batch = batch.view,
                  .logit_rows = batch.logit_rows};
  args.hidden = arena.take(options_.activations, {T, config_.hidden_size});
  if (R > 0) args.logits = arena.take(DType::kF32, {R, config_.vocab_size});
  if (options.reuse_selected) {
    GLINT_CHECK(T == 1 && kept_selected_, "reused keys are those of one kept row");
    args.reuse_selected = kept_selected_;
  } else {
    args.selected = arena.take(DType::kI32, {T, config_.index_topk});
  }
  forward_mtp(model(), args, arena);
  if (options.keep_selected) {
    const std::size_t bytes = static_cast<std::size_t>(config_.index_topk) * sizeof(std::int32_t);
    if (!kept_selected_) {
      kept_buffer_ = ops_->device().allocate(bytes);
      GLINT_CHECK(kept_buffer_.data(), "no memory for one row of selected keys");
      kept_selected_ = Tensor(kept_buffer_.data(), DType::kI32, {1, config_.index_topk});
    }
    std::vector<std::byte> row(bytes);
    ops_->device().copy_out(row.data(), args.selected.row<std::int32_t>(T - 1), bytes);
    ops_->device().copy_in(kept_selected_.data, row.data(), bytes);
  }
  return {.logits = to_host(args.logits), .hidden = args.hidden, .vocab = config_.vocab_size};
}

Status check_vocabulary(const LoadedModel& model, std::span<const TokenId> ids) {
  const std::int64_t vocab = model.config().vocab_size;
  for (const TokenId id : ids) {
    if (id < 0 || id >= vocab) {
      return invalid(str("token ", id, " is not in the vocabulary of ", vocab, " tokens"));
    }
  }
  return Ok{};
}

}  // namespace glint
