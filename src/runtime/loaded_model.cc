#include "runtime/loaded_model.h"

#include <algorithm>
#include <chrono>

#include "base/seconds.h"
#include "base/str.h"
#include "base/thread_pool.h"
#include "checkpoint/memory_source.h"
#include "model/divided_ops.h"
#include "model/inventory.h"
#include "model/rank_ops.h"
#include "model/synthetic.h"
#include "runtime/memory_plan.h"
#include "runtime/read_speed.h"
#include "runtime/step.h"
#include "runtime/weight_noise.h"

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

// Bytes that a step of a prompt, and a cache of its length, will take.
Result<std::int64_t> bytes_of_one_sequence(LoadedModel& model) {
  constexpr int kStep = 512;
  constexpr std::int64_t kLength = 4096;
  const std::int64_t length = std::min(kLength, model.config().max_position_embeddings);
  GLINT_TRY(const MemoryPlan plan, plan_memory(model, {.max_step_tokens = kStep,
                                                       .max_running = 1,
                                                       .max_drafts = 1,
                                                       .max_seq_len = length}));
  return plan.working_bytes() + (length / kPageSize + 1) * plan.page;
}

// Threads for work on the host while the backend runs nothing: its own, or, where it has none, as
// many as it was told to load with.
class HostThreads {
 public:
  HostThreads(Backend& backend, int threads) : pool_(backend.host_threads()) {
    if (!pool_) pool_ = &own_.emplace(threads);
  }
  ThreadPool& pool() { return *pool_; }

 private:
  std::optional<ThreadPool> own_;
  ThreadPool* pool_;
};

}  // namespace

LoadedModel::LoadedModel(ModelOptions options, DecoratedBackend backend)
    : options_(std::move(options)),
      backend_(std::move(backend)),
      step_(ops().device()),
      draft_(ops().device()),
      head_(ops().device()),
      scratch_(ops().device()),
      moves_(ops().device()) {
  ops().device().set_work([this] { return activity_.describe_last(); });
}

Result<std::unique_ptr<LoadedModel>> LoadedModel::load(const ModelOptions& options,
                                                       DecoratedBackend backend,
                                                       const LoadProgress& progress,
                                                       std::optional<OpenedModel> opened) {
  std::unique_ptr<LoadedModel> m(new LoadedModel(options, std::move(backend)));
  if (!opened) {
    GLINT_TRY(opened, open_model(options));
  }
  m->config_ = opened->config;
  m->generation_ = opened->generation;
  GLINT_TRY(m->partition_, plan_partition(m->config_, options.shape, options.rank));
  Mesh& mesh = m->options_.mesh;
  m->ranks_.host_pp = mesh.pp;
  m->ranks_.groups = DeviceGroups::join(m->backend(), mesh, m->partition_.is_divided());
  if (mesh.pp != m->ranks_.host_pp && m->partition_.is_last()) {
    m->ranks_.staged_pp = std::make_unique<StagedComm>(*m->ranks_.host_pp, m->ops().device());
  }
  if (options.decorate_mesh) options.decorate_mesh(mesh);
  m->backend_.ops =
      ops_of_rank(std::move(m->backend_.ops), m->partition_, *mesh.tp, *mesh.cp, m->weights_);
  GLINT_TRY_STATUS(m->backend().supports(dims_of(m->config_)));
  // The configuration's own needs are checked before the first weight is read.
  Capabilities need = all_capabilities("");
  need.activations = {options.numbers.activations};
  need.latents = {options.numbers.latent};
  need.indexes = {options.numbers.index};
  need.weights = {};
  need.mixed_stacks = false;
  need.gradients = false;
  GLINT_TRY_STATUS(check_capabilities(m->backend().capabilities(), need));

  HostThreads threads(m->backend(), options.threads);
  if (options.dummy && !m->ops().device().is_host()) {
    GLINT_TRY_STATUS(m->make_up_weights());
    add_needs(m->weights_, need);
    GLINT_TRY_STATUS(check_capabilities(m->backend().capabilities(), need));
    return m;
  }
  if (options.dummy) {
    GLINT_TRY(opened->checkpoint, make_dummy(m->config_, *options.dummy, threads.pool(), progress));
  }
  const auto start = std::chrono::steady_clock::now();
  m->checkpoint_ = std::make_unique<Checkpoint>(std::move(*opened->checkpoint));
  m->count_files();
  GLINT_TRY(m->load_stats_.unused, unused_tensors(m->config_, *m->checkpoint_));
  m->options_.with_mtp = options.with_mtp && holds_mtp_layer(m->config_, m->checkpoint_->source());
  GLINT_TRY(m->weights_, find_weights(*m->checkpoint_, m->config_,
                                      {.activations = options.numbers.activations,
                                       .with_mtp = m->has_mtp(),
                                       .partition = &m->partition_},
                                      threads.pool()));
  m->load_stats_.held_bytes = bytes_of(m->weights_);
  add_needs(m->weights_, need);
  GLINT_TRY_STATUS(check_capabilities(m->backend().capabilities(), need));
  // Synthetic weights are in memory already: packing them takes no more of it.
  const bool in_memory = options.dummy && options.packing == Packing::kIfRoom;
  GLINT_TRY(const std::int64_t keep_free,
            options.keep_free ? *options.keep_free : bytes_of_one_sequence(*m));
  GLINT_TRY(m->load_stats_.placement,
            place_weights(m->weights_,
                          {.packing = in_memory ? Packing::kAlways : options.packing,
                           .keep_free = keep_free,
                           .sources = opened->sources},
                          m->backend(), threads.pool(), options.dummy ? LoadProgress{} : progress));
  GLINT_TRY_STATUS(m->prepare_moves());
  m->load_stats_.seconds = seconds_since(start);
  return m;
}

// On the device, this rank's share alone: no host need hold the whole.
Status LoadedModel::make_up_weights() {
  const auto start = std::chrono::steady_clock::now();
  options_.with_mtp = options_.with_mtp && config_.num_nextn_predict_layers > 0;
  GLINT_TRY(weights_, glint::make_up_weights(config_, partition_,
                                             {.format = formats_of(config_, *options_.dummy),
                                              .with_mtp = has_mtp(),
                                              .tp = options_.shape.tp,
                                              .activations = options_.numbers.activations},
                                             ops().device()));
  checkpoint_ = std::make_unique<Checkpoint>(
      std::make_unique<MemorySource>("the synthetic model", std::vector<StoredTensor>()));
  load_stats_.bytes = load_stats_.held_bytes = bytes_of(weights_);
  load_stats_.placement.is_packed = true;
  GLINT_TRY_STATUS(prepare_moves());
  load_stats_.seconds = seconds_since(start);
  return Ok{};
}

Status LoadedModel::update_weights(const std::string& dir) {
  if (is_made_up()) {
    return unsupported(
        "synthetic weights that were made on a device have no checkpoint's places; restart "
        "with the checkpoint that is to be served");
  }
  const std::string before = options_.dir;
  const auto go_to = [this](const std::string& path) {
    return on_all({.kind = RankCommand::Kind::kUpdateWeights, .path = path},
                  [&] { return take_weights(path); });
  };
  Status status = go_to(dir);
  if (status.ok() || !ranks_.followers || ranks_.followers->have_leaders_weights()) return status;
  const Status back = go_to(before);
  if (back.ok() || ranks_.followers->have_leaders_weights() || !ranks_state().ok()) return status;
  const std::string why = str("the ranks have different weights: not all could load ", dir, " (",
                              status.error().message, "), nor ", before, " again (",
                              back.error().message, "); keep both where every rank can read them");
  ranks_.followers->lose(why);  // they start again, with what this rank has
  return unavailable(why);
}

Status LoadedModel::take_weights(const std::string& dir) {
  GLINT_TRY(ModelConfig config, read_config(dir + "/config.json"));
  GLINT_TRY(Checkpoint checkpoint, Checkpoint::open(dir));
  keep_own_head(config, checkpoint);
  if (!same_model(config, config_)) {
    return invalid(str(dir, "/config.json is of another model than ", options_.dir,
                       "; load it with a restart"));
  }
  GLINT_TRY_STATUS(replace(std::move(checkpoint), Sources::kDiscard).in("loading " + dir));
  options_.dir = dir;
  return Ok{};
}

Status LoadedModel::update_weights(Checkpoint next) {
  GLINT_CHECK(!ranks_.followers, "weights in the leader's memory are not the other ranks'");
  return replace(std::move(next), Sources::kKeep);
}

Status LoadedModel::replace(Checkpoint next, Sources sources) {
  auto checkpoint = std::make_unique<Checkpoint>(std::move(next));
  HostThreads threads(backend(), options_.threads);
  GLINT_TRY(ModelWeights weights, find_weights(*checkpoint, config_,
                                               {.activations = options_.numbers.activations,
                                                .with_mtp = has_mtp(),
                                                .partition = &partition_},
                                               threads.pool()));
  GLINT_TRY_STATUS(replace_weights(weights_, std::move(weights), load_stats_.placement, sources,
                                   backend(), threads.pool()));
  checkpoint_ = std::move(checkpoint);
  // Recorded steps read these where those before them lay.
  if (!load_stats_.placement.is_fixed) graphs_.clear();
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

Status LoadedModel::reserve_pages(int num_pages, std::int64_t max_seq_len) {
  if (max_seq_len == 0) max_seq_len = config_.max_position_embeddings;
  return on_all({.kind = RankCommand::Kind::kReservePages,
                 .max_seq_len = max_seq_len,
                 .num_pages = num_pages},
                [&] { return make_pages(num_pages, max_seq_len); });
}

Status LoadedModel::make_pages(int num_pages, std::int64_t max_seq_len) {
  graphs_.clear();
  kv_.reset();
  GLINT_TRY_STATUS(connect_ranks());
  GLINT_TRY(KvStore store, KvStore::make(config_,
                                         {.latent = options_.numbers.latent,
                                          .index = options_.numbers.index,
                                          .num_pages = num_pages,
                                          .with_mtp = !weights_.mtp.empty(),
                                          .layers = partition_.layers},
                                         ops().device()));
  kv_.emplace(std::move(store));
  const std::int64_t positions =
      std::min(std::int64_t{num_pages} * kPageSize, max_seq_len + kPageSize);
  GLINT_TRY(rope_, make_rope_table(config_, positions, ops().device(), backend().host_threads()));
  return Ok{};
}

Status LoadedModel::reserve_steps(const StepMemory& planned) {
  return on_all({.kind = RankCommand::Kind::kReserveSteps, .memory = planned},
                [&] { return make_room(planned); });
}

Status LoadedModel::make_room(const StepMemory& planned) {
  graphs_.clear();
  for (Pass* pass : {&step_, &draft_, &head_}) pass->scope.reset();
  const auto no_room = [&](std::int64_t bytes, const char* what) {
    return exhausted(str("no room on ", ops().device().name(), " for ", human_bytes(bytes), " of ",
                         what, "; smaller steps and shorter sequences need less"));
  };
  for (const auto& [arena, bytes] :
       {std::pair(&step_.arena, planned.step), std::pair(&draft_.arena, planned.draft),
        std::pair(&head_.arena, planned.head), std::pair(&scratch_, planned.edits),
        std::pair(&moves_.arena, planned.moves)}) {
    if (bytes > 0 && !arena->reserve(static_cast<std::size_t>(bytes))) {
      return no_room(bytes, "activations");
    }
  }
  if (ranks_.results && !ranks_.results->reserve(static_cast<std::size_t>(planned.num_results),
                                                 static_cast<std::size_t>(planned.result))) {
    return no_room(planned.results(), "results of stages");
  }
  if (planned.scratch == 0) return Ok{};
  // Each backend knows by itself how its memory is divided.
  GLINT_TRY(const std::unique_ptr<StepTrial> trial, StepTrial::make(config_, trial_options(*this)));
  trial->memory(planned.limits);
  if (trial->reserve_scratch()) return Ok{};
  return no_room(planned.scratch, "the products' own memory");
}

GraphStats LoadedModel::record_graphs(std::int64_t max_seq_len, const StepOptions& options) {
  if (!StepGraphs::can_record(model())) return {};
  Device& device = ops().device();
  device.synchronize();
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t before = device.memory().available;
  (void)on_all({.kind = RankCommand::Kind::kRecordGraphs,
                .routed = options.routed,
                .graph_drafts = options.max_drafts,
                .graph_sizes = to_list(graphs_.sizes()),
                .max_seq_len = max_seq_len},
               [&]() -> Status {
                 record_own_graphs(max_seq_len, options);
                 return Ok{};
               });
  ranks_.record_again = [=, this] { record_own_graphs(max_seq_len, options); };
  return {.count = graphs_.size(),
          .seconds = seconds_since(start),
          .bytes = before - device.memory().available};
}

void LoadedModel::record_own_graphs(std::int64_t max_seq_len, const StepOptions& options) {
  const Activity::Pause pause(activity_);  // of steps: while a graph is recorded nothing may wait
  graphs_.record_all(model(), rope_.table, options, max_seq_len, step_.begin());
  ops().device().synchronize();
}

StepMemory LoadedModel::used_memory() const {
  return {.step = static_cast<std::int64_t>(step_.arena.high_water()),
          .draft = static_cast<std::int64_t>(draft_.arena.high_water()),
          .head = static_cast<std::int64_t>(head_.arena.high_water()),
          .edits = static_cast<std::int64_t>(scratch_.high_water()),
          .moves = static_cast<std::int64_t>(moves_.arena.high_water()),
          .scratch = backend_.backend->scratch_bytes()};
}

template <class T>
std::span<const T> LoadedModel::on_host(const Tensor& tensor, std::vector<T>& copy) {
  const std::size_t size = tensor ? static_cast<std::size_t>(tensor.size()) : 0;
  if (size == 0) return {};
  if (ops().device().is_host()) return {tensor.ptr<T>(), size};
  copy.resize(size);
  ops().device().copy_out(copy.data(), tensor.data, size * sizeof(T));
  return copy;
}

void LoadedModel::read_row(const Tensor& tensor, std::int64_t row, std::span<std::byte> to) {
  ops().device().copy_out(
      to.data(), tensor.data + row * tensor.stride[0] * static_cast<int>(size_of(tensor.dtype)),
      to.size());
}

Tensor LoadedModel::place(const HiddenRows& from, Arena& arena) {
  if (!from.on_host.empty()) {
    const auto T = static_cast<std::int64_t>(from.on_host.size() / hidden_row_bytes());
    const Tensor hidden = arena.take(options_.numbers.activations, {T, config_.hidden_size});
    ops().device().copy_in(hidden.data, from.on_host.data(), from.on_host.size());
    return hidden;
  }
  if (from.on_device) return from.on_device;
  const auto [places, hidden] =
      take_gathered(model(), static_cast<std::int64_t>(from.rows.size()), arena);
  ops().device().copy_in(places.data, from.rows.data(), from.rows.size_bytes());
  ops().gather_rows({.x = last_.hidden, .rows = places, .out = hidden});
  return hidden;
}

StepOutput LoadedModel::step(const StepRows& rows, const StepOptions& options) {
  StepOutput out;
  if (ranks_.followers) {
    std::vector<StepRows> replicas(
        static_cast<std::size_t>(partition_.shape.num_sequence_groups()));
    replicas.front() = rows;
    count_all_tokens(replicas);
    out = step(replicas, options);
  } else {
    out = run_own(rows, options);
  }
  if (options.to_host) {
    out.logits = on_host(out.device_logits, step_.logits);
    out.routed = on_host(out.device_routed, step_.routed);
  }
  activity_.end();
  return out;
}

StepOutput LoadedModel::run_own(const StepRows& rows, const StepOptions& options) {
  Arena& arena = step_.begin();
  activity_.set_step(rows.step, static_cast<int>(rows.tokens.size()));
  activity_.begin("build_batch");
  const ForwardArgs ran = graphs_.fit(model(), rows, options)
                              ? graphs_.run(model(), rows, rope_.table, options, arena)
                              : run_step(model(), rows, rope_.table, options, arena);
  last_.hidden = ran.hidden;
  return {.device_logits = gather_logits(model(), ran.logits, arena),
          .hidden = ran.hidden,
          .device_routed = ran.routed,
          .vocab = config_.vocab_size};
}

StepOutput LoadedModel::draft(const StepRows& rows, const HiddenRows& target,
                              std::span<const std::int32_t> selection) {
  GLINT_CHECK(has_mtp() && partition_.is_last(), "a draft needs an MTP layer");
  tell({.kind = RankCommand::Kind::kDraft,
        .replicas = {rows},
        .selection = {selection.begin(), selection.end()}},
       target);
  StepOutput out = draft_own(rows, target, {.selection = selection}, draft_.begin());
  out.logits = on_host(out.device_logits, draft_.logits);
  activity_.end();
  return out;
}

StepOutput LoadedModel::draft_ahead(const StepRows& rows, const HiddenRows& target,
                                    DraftOptions options) {
  GLINT_CHECK(has_mtp() && !ranks_.followers, "drafts ahead of the host are of one rank");
  options.all_rows = true;
  const StepOutput out = draft_own(rows, target, options, draft_.begin());
  activity_.end();
  return out;
}

StepOutput LoadedModel::draft_own(const StepRows& rows, const HiddenRows& target,
                                  const DraftOptions& options, Arena& arena) {
  activity_.begin("mtp_batch");
  const DraftResults ran = run_draft(
      model(), rows, rope_.table, [&] { return place(target, arena); }, options, arena);
  return {.device_logits = gather_logits(model(), ran.logits, arena),
          .hidden = ran.hidden,
          .selected = ran.selected,
          .vocab = config_.vocab_size};
}

}  // namespace glint
