#include "runtime/loaded_model.h"

#include <algorithm>
#include <chrono>

#include "base/file.h"
#include "base/seconds.h"
#include "base/str.h"
#include "base/thread_pool.h"
#include "model/inventory.h"
#include "model/synthetic.h"
#include "runtime/batch.h"
#include "runtime/read_speed.h"

namespace glint {
namespace {

Result<Checkpoint> make_dummy(const ModelConfig& config, Release release, ThreadPool& pool,
                              const LoadProgress& progress) {
  constexpr std::uint64_t kSeed = 0;
  GLINT_TRY(const SyntheticModel model, SyntheticModel::plan(config, release, kSeed));
  return make_dummy_checkpoint(model, pool, [&](std::int64_t bytes) {
    if (progress) progress(bytes, model.bytes());
    return true;
  });
}

// Threads for work on the host while the backend runs nothing: its own, or, where it has none, as
// many as it was told to load with.
class HostThreads {
 public:
  HostThreads(Ops& ops, int threads) : pool_(ops.host_threads()) {
    if (!pool_) pool_ = &own_.emplace(threads);
  }
  ThreadPool& pool() { return *pool_; }

 private:
  std::optional<ThreadPool> own_;
  ThreadPool* pool_;
};

}  // namespace

LoadedModel::LoadedModel(ModelOptions options, std::unique_ptr<Ops> ops)
    : options_(std::move(options)),
      ops_(std::move(ops)),
      step_arena_(ops_->device()),
      draft_arena_(ops_->device()),
      head_arena_(ops_->device()) {}

Result<std::unique_ptr<LoadedModel>> LoadedModel::load(const ModelOptions& options,
                                                       std::unique_ptr<Ops> ops,
                                                       const LoadProgress& progress,
                                                       std::optional<Checkpoint> opened) {
  std::unique_ptr<LoadedModel> m(new LoadedModel(options, std::move(ops)));
  const std::string config_file =
      options.dummy && file_exists(options.dir) ? options.dir : options.dir + "/config.json";
  GLINT_TRY(m->config_, read_config(config_file));
  GLINT_TRY(m->generation_,
            read_generation_config(options.dir + "/generation_config.json", m->config_.vocab_size));
  GLINT_TRY(m->shard_, plan_shard(m->config_, options.shape, options.rank));
  GLINT_TRY_STATUS(m->ops_->supports(dims_of(m->config_)));
  // The configuration's own needs are checked before the first weight is read.
  Capabilities need = all_capabilities("");
  need.activations = {options.activations};
  need.latents = {options.latent};
  need.indexes = {options.index};
  need.weights = {};
  need.mixed_stacks = false;
  need.gradients = false;
  GLINT_TRY_STATUS(check_capabilities(m->ops_->capabilities(), need));

  HostThreads threads(*m->ops_, options.threads);
  if (options.dummy) {
    GLINT_TRY(opened, make_dummy(m->config_, *options.dummy, threads.pool(), progress));
  }
  const auto start = std::chrono::steady_clock::now();
  GLINT_TRY(Checkpoint checkpoint, opened ? std::move(*opened) : Checkpoint::open(options.dir));
  m->checkpoint_ = std::make_unique<Checkpoint>(std::move(checkpoint));
  m->count_files();
  GLINT_TRY(m->load_stats_.unused, unused_tensors(m->config_, *m->checkpoint_));
  const bool with_mtp = options.with_mtp && holds_mtp_layer(m->config_, m->checkpoint_->source());
  GLINT_TRY(
      m->weights_,
      find_weights(*m->checkpoint_, m->config_,
                   {.activations = options.activations, .with_mtp = with_mtp, .shard = &m->shard_},
                   threads.pool()));
  m->load_stats_.held_bytes = bytes_of(m->weights_);
  add_needs(m->weights_, need);
  GLINT_TRY_STATUS(check_capabilities(m->ops_->capabilities(), need));
  // Synthetic weights are in memory already: packing them takes no more of it.
  GLINT_TRY(m->load_stats_.placement,
            place_weights(m->weights_,
                          options.dummy && options.packing == Packing::kIfRoom ? Packing::kAlways
                                                                               : options.packing,
                          *m->ops_, threads.pool(), options.dummy ? LoadProgress{} : progress));
  m->load_stats_.seconds = seconds_since(start);
  return m;
}

Status LoadedModel::update_weights(const std::string& dir) {
  GLINT_TRY(const ModelConfig config, read_config(dir + "/config.json"));
  if (!same_model(config, config_)) {
    return invalid(str(dir, "/config.json is of another model than ", options_.dir,
                       "; load it with a restart"));
  }
  GLINT_TRY(Checkpoint checkpoint, Checkpoint::open(dir));
  GLINT_TRY_STATUS(update_weights(std::move(checkpoint)).in("loading " + dir));
  options_.dir = dir;
  return Ok{};
}

Status LoadedModel::update_weights(Checkpoint next) {
  auto checkpoint = std::make_unique<Checkpoint>(std::move(next));
  HostThreads threads(*ops_, options_.threads);
  GLINT_TRY(
      ModelWeights weights,
      find_weights(*checkpoint, config_,
                   {.activations = options_.activations, .with_mtp = has_mtp(), .shard = &shard_},
                   threads.pool()));
  GLINT_TRY_STATUS(
      replace_weights(weights_, std::move(weights), load_stats_.placement, *ops_, threads.pool()));
  checkpoint_ = std::move(checkpoint);
  return Ok{};
}

void LoadedModel::count_files() {
  const TensorSource& source = checkpoint_->source();
  for (const StoredTensor& tensor : source.tensors()) {
    load_stats_.bytes += static_cast<std::int64_t>(tensor.bytes.size());
    std::vector<std::string>& files = load_stats_.files;
    if (options_.dummy || static_cast<std::size_t>(tensor.file) < files.size()) continue;
    files.push_back(source.file_name(tensor.file));
  }
  load_stats_.cached_share = cached_share(load_stats_.files);
}

Status LoadedModel::reserve_pages(int num_pages) {
  kv_.reset();
  GLINT_TRY(KvStore store, KvStore::make(config_,
                                         {.latent = options_.latent,
                                          .index = options_.index,
                                          .num_pages = num_pages,
                                          .with_mtp = has_mtp(),
                                          .layers = shard_.layers},
                                         ops_->device()));
  kv_.emplace(std::move(store));
  return make_rope_table();
}

Status LoadedModel::make_rope_table() {
  const std::int64_t dim = config_.qk_rope_head_dim;
  const std::int64_t positions = std::min(std::int64_t{kv_->num_pages()} * kPageSize,
                                          config_.max_position_embeddings + kPageSize);
  ThreadPool alone(1);
  ThreadPool* const threads = ops_->host_threads();
  const std::vector<float> table =
      rope_table(config_.rope, dim, positions, threads ? *threads : alone);
  const std::size_t bytes = table.size() * sizeof(float);
  rope_memory_ = ops_->device().allocate(bytes);
  if (!rope_memory_.data()) {
    return Error{ErrorCode::kResourceExhausted,
                 str("no room on ", ops_->device().name(), " for a rotary table of ",
                     human_bytes(static_cast<double>(bytes)), "; a shorter context needs less")};
  }
  rope_table_ = Tensor(rope_memory_.data(), DType::kF32, {positions, dim});
  ops_->device().copy_in(rope_table_.data, table.data(), bytes);
  return Ok{};
}

template <class T>
std::span<const T> LoadedModel::on_host(const Tensor& tensor, std::vector<T>& copy) {
  const std::size_t size = tensor ? static_cast<std::size_t>(tensor.size()) : 0;
  if (size == 0) return {};
  if (ops_->device().is_host()) return {tensor.ptr<T>(), size};
  copy.resize(size);
  ops_->device().copy_out(copy.data(), tensor.data, size * sizeof(T));
  return copy;
}

void LoadedModel::read_row(const Tensor& tensor, std::int64_t row, std::span<std::byte> to) {
  ops_->device().copy_out(
      to.data(), tensor.data + row * tensor.stride[0] * static_cast<int>(size_of(tensor.dtype)),
      to.size());
}

Tensor LoadedModel::place(const HiddenRows& from, Arena& arena) {
  if (!from.on_host.empty()) {
    const auto T = static_cast<std::int64_t>(from.on_host.size() / hidden_row_bytes());
    const Tensor hidden = arena.take(options_.activations, {T, config_.hidden_size});
    ops_->device().copy_in(hidden.data, from.on_host.data(), from.on_host.size());
    return hidden;
  }
  if (from.rows.empty()) return from.on_device;
  const auto T = static_cast<std::int64_t>(from.rows.size());
  const Tensor rows = arena.take(DType::kI32, {T});
  ops_->device().copy_in(rows.data, from.rows.data(), from.rows.size_bytes());
  const Tensor hidden = arena.take(options_.activations, {T, config_.hidden_size});
  ops_->gather_rows({.x = from.on_device, .rows = rows, .out = hidden});
  return hidden;
}

StepOutput LoadedModel::step(const StepPlan& plan, const StepOptions& options) {
  step_scope_.emplace(step_arena_);
  activity_.set_step(plan.step, static_cast<int>(plan.tokens.size()));
  activity_.begin("build_batch");
  const Batch batch = build_batch(plan, rope_table_, step_arena_);
  const std::int64_t T = batch.token_ids.dim(0), R = batch.logit_rows.dim(0);
  ForwardArgs args = {.token_ids = batch.token_ids,
                      .batch = batch.view,
                      .logit_rows = batch.logit_rows,
                      .taps = options.taps};
  if (shard_.is_last()) {
    args.hidden = step_arena_.take(options_.activations, {T, config_.hidden_size});
  }
  if (R > 0 && shard_.is_last())
    args.logits = step_arena_.take(DType::kF32, {R, config_.vocab_size});
  int moe_layers = 0;
  for (int i = shard_.layers.begin; i < shard_.layers.end; ++i) {
    moe_layers += !config_.layers[i].is_dense();
  }
  if (options.routed && moe_layers > 0) {
    args.routed = step_arena_.take(DType::kI32, {moe_layers * T, config_.num_experts_per_tok});
  }
  forward(model(), args, step_arena_);
  const StepOutput out = {.logits = on_host(args.logits, step_logits_),
                          .hidden = args.hidden,
                          .routed = on_host(args.routed, routed_),
                          .vocab = config_.vocab_size};
  activity_.end();
  return out;
}

StepOutput LoadedModel::draft(const StepPlan& plan, const HiddenRows& target,
                              std::span<const std::int32_t> selection) {
  GLINT_CHECK(has_mtp(), "a draft needs an MTP layer");
  draft_scope_.emplace(draft_arena_);
  // Position 0 has no embedding: the layer was trained on rows from position 1 on.
  StepPlan rows = plan;
  for (const SeqSlice& slice : rows.slices) {
    if (slice.first == 0 && slice.count > 0) rows.tokens[slice.token_begin] = -1;
  }
  activity_.begin("mtp_batch");
  const Batch batch = build_batch(rows, rope_table_, draft_arena_);
  const std::int64_t T = batch.token_ids.dim(0), R = batch.logit_rows.dim(0);
  MtpArgs args = {.next_ids = batch.token_ids,
                  .target = place(target, draft_arena_),
                  .batch = batch.view,
                  .logit_rows = batch.logit_rows};
  args.hidden = draft_arena_.take(options_.activations, {T, config_.hidden_size});
  if (R > 0) args.logits = draft_arena_.take(DType::kF32, {R, config_.vocab_size});
  args.selected = draft_arena_.take(DType::kI32, {T, config_.index_topk});
  args.selection_given = !selection.empty();
  if (args.selection_given) {
    ops_->device().copy_in(args.selected.data, selection.data(), selection.size_bytes());
  }
  forward_mtp(model(), args, draft_arena_);
  const StepOutput out = {.logits = on_host(args.logits, draft_logits_),
                          .hidden = args.hidden,
                          .selected = args.selected,
                          .vocab = config_.vocab_size};
  activity_.end();
  return out;
}

std::span<const float> LoadedModel::logits_of(const HiddenRows& hidden) {
  head_scope_.emplace(head_arena_);
  activity_.begin("lm_head");
  const Tensor rows = place(hidden, head_arena_);
  const Tensor logits = head_arena_.take(DType::kF32, {rows.dim(0), config_.vocab_size});
  ops_->linear({.x = rows, .weight = weights_.lm_head, .out = logits});
  const std::span<const float> out = on_host(logits, head_logits_);
  activity_.end();
  return out;
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
