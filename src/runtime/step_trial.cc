#include "runtime/step_trial.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "base/str.h"
#include "comm/null_comm.h"
#include "engine/kv_cache.h"
#include "model/divided_ops.h"
#include "model/move_experts.h"
#include "model/rank_ops.h"
#include "runtime/logprobs.h"
#include "runtime/routed_experts.h"
#include "runtime/sample_rows.h"
#include "runtime/seat_table.h"

namespace glint {
namespace {

// Bytes of a GPU's memory that an op of a recorded step takes (bench/results/cuda-steps-h200.txt).
constexpr std::int64_t kGraphBytesOfCall = 3 << 10;

// The ranks of a stage as the replicas of ModelPartition, where they share the experts.
MeshShape as_replicas(MeshShape shape) {
  shape.dp = shape.ep == 1 ? 1 : shape.tp * shape.dp;
  shape.tp = shape.cp = 1;
  shape.reduce_slices = 0;
  return shape;
}

// Sequences are at least as long as what the step runs of them.
PassShape fitted(PassShape shape) {
  const std::int64_t each = ceil_div(shape.tokens, shape.sequences);
  shape.length = std::max(shape.length, each);
  return shape;
}

}  // namespace

Result<ModelPartition> partition_of(const ModelConfig& config, const MeshShape& shape, int stage) {
  GLINT_TRY_STATUS(plan_partition(config, shape, 0));
  const MeshShape replicas = as_replicas(shape);
  GLINT_TRY(ModelPartition partition, plan_partition(config, replicas, stage * replicas.dp));
  partition.heads.count = config.num_attention_heads / shape.tp;
  if (shape.ep > 1) {
    partition.experts.count = ceil_div(partition.num_expert_slots, shape.ep);
  }
  return partition;
}

StepTrial::StepTrial(const ModelConfig& config, const TrialOptions& options)
    : config_(config),
      options_(options),
      device_(options.like ? &options.like->device() : nullptr) {}

Result<std::unique_ptr<StepTrial>> StepTrial::make(const ModelConfig& config,
                                                   const TrialOptions& options) {
  std::unique_ptr<StepTrial> t(new StepTrial(config, options));
  const MeshShape& shape = options.shape;
  GLINT_TRY(t->partition_, partition_of(config, shape, options.stage));
  std::unique_ptr<PlanOps> plan = options.like ? options.like->make_plan_ops(t->device_)
                                               : std::make_unique<PlanOps>(t->device_);
  t->plan_ = plan.get();
  t->ops_ = std::move(plan);
  t->meeting_ = t->partition_;
  t->meeting_.shape = options.meets ? shape : MeshShape{};
  t->weights_ = null_weights(config, t->partition_,
                             {.format = options.format,
                              .with_mtp = options.with_mtp,
                              .tp = shape.tp,
                              .slices = t->meeting_.own_slices(),
                              .activations = options.numbers.activations},
                             t->device_);
  t->tp_ = std::make_unique<NullComm>(0, t->meeting_.shape.tp);
  t->cp_ = std::make_unique<NullComm>(0, t->meeting_.shape.cp);
  t->ops_ = t->meeting(std::move(t->ops_), *t->tp_, *t->cp_);
  t->ep_ = std::make_unique<NullComm>(t->partition_.replica, shape.ep);
  if (shape.moves_experts) {
    GLINT_TRY(t->expert_tables_, ExpertTables::make(config, t->partition_, t->device_));
  }
  t->pp_ = std::make_unique<NullComm>(options.stage, shape.pp);
  GLINT_TRY(KvStore kv, KvStore::make(config,
                                      {.latent = options.numbers.latent,
                                       .index = options.numbers.index,
                                       .num_pages = 1,
                                       .with_mtp = !t->weights_.mtp.empty(),
                                       .layers = t->partition_.layers},
                                      t->device_));
  t->kv_.emplace(std::move(kv));
  return t;
}

std::unique_ptr<Ops> StepTrial::meeting(std::unique_ptr<Ops> ops, Comm& tp, Comm& cp) {
  return ops_of_rank(std::move(ops), meeting_, tp, cp, weights_);
}

Model StepTrial::model() {
  return {*ops_,
          {.tp = tp_.get(), .cp = cp_.get(), .ep = ep_.get(), .pp = pp_.get()},
          partition_,
          config_,
          weights_,
          *kv_,
          options_.numbers.activations,
          activity_,
          expert_tables_ ? &*expert_tables_ : nullptr};
}

// With a table of the model's own positions, not the pass's.
Batch StepTrial::batch_of(const PassShape& shape, Arena& arena) {
  Tensor table = arena.take(DType::kF32, {0, config_.qk_rope_head_dim});
  table.shape[0] = shape.length;
  const BatchSizes sizes = {.sequences = shape.sequences,
                            .pages = pages_of(shape.length),
                            .tokens = shape.tokens,
                            .logit_rows = shape.logit_rows,
                            .end = shape.length,
                            .all_tokens = std::int64_t{shape.tokens} * options_.shape.dp};
  return place(take_inputs(sizes, arena), table, {}, *ops_, arena);
}

Assume StepTrial::assume(const PassShape& shape) {
  const MeshShape& ranks = options_.shape;
  const ExpertLoad load = shape.load
                              ? *shape.load
                              : expert_load(config_.n_routed_experts, config_.num_experts_per_tok,
                                            shape.tokens * (ranks.ep > 1 ? ranks.dp : 1), ranks.ep);
  const double each = static_cast<double>(shape.tokens) / shape.sequences;
  return {.visible = static_cast<double>(shape.length) - (each - 1) / 2,
          .sequences = static_cast<double>(shape.sequences),
          .longest = static_cast<double>(shape.length),
          .experts = load.experts,
          .rows = load.rows};
}

std::int64_t StepTrial::run(const PassShape& asked) {
  const PassShape shape = fitted(asked);
  plan_->reset(assume(shape));
  Arena arena(device_);
  const ForwardArgs ran =
      run_batch(model(), batch_of(shape, arena), {.routed = shape.routed}, arena);
  gather_logits(model(), ran.logits, arena);
  return static_cast<std::int64_t>(arena.high_water());
}

std::int64_t StepTrial::run_drafts(const PassShape& asked) {
  const PassShape shape = fitted(asked);
  plan_->reset(assume(shape));
  Arena arena(device_);
  const std::vector<std::int32_t> last(static_cast<std::size_t>(shape.sequences));
  const DraftResults ran = run_draft_batch(
      model(), batch_of(shape, arena), last,
      [&] { return take_gathered(model(), shape.tokens, arena).hidden; }, {}, arena);
  gather_logits(model(), ran.logits, arena);
  return static_cast<std::int64_t>(arena.high_water());
}

std::int64_t StepTrial::run_head(int rows) {
  plan_->reset({});
  Arena arena(device_);
  const Tensor logits = glint::run_head(model(), take_gathered(model(), rows, arena).hidden, arena);
  gather_logits(model(), logits, arena);
  return static_cast<std::int64_t>(arena.high_water());
}

// The layer that takes most, if none of its experts stays where it is.
std::int64_t StepTrial::run_moves() {
  const ExpertSlots from = partition_.slots_of(0, config_.n_routed_experts);
  ExpertSlots to = from;
  std::rotate(to.begin(), to.begin() + partition_.experts.count, to.end());
  std::int64_t most = 0;
  for (const LayerWeights& layer : weights_.layers) {
    if (!layer.moe.gate) continue;
    Arena arena(device_);
    move_experts({from, to}, layer.moe, *ep_, arena);
    most = std::max(most, static_cast<std::int64_t>(arena.high_water()));
  }
  return most;
}

StepMemory StepTrial::memory(const StepLimits& limits) {
  const int sequences = std::max(1, std::min(limits.max_step_tokens, limits.max_running));
  const auto tokens = static_cast<int>(
      std::min<std::int64_t>(limits.max_step_tokens, sequences * limits.max_seq_len));
  const PassShape full = {
      .tokens = tokens,
      .sequences = sequences,
      .length = limits.max_seq_len,
      .logit_rows = static_cast<int>(std::min<std::int64_t>(
          tokens,
          limits.all_logits ? tokens : std::int64_t{limits.max_running} * (1 + limits.max_drafts))),
      .routed = true};
  StepMemory memory = {.step = run(full), .limits = limits};
  if (partition_.is_last()) {
    memory.head = run_head(std::max(kLogprobRows, sequences));
    if (!limits.all_logits) {
      const std::int64_t rows = std::min<std::int64_t>(  // of all replicas
          std::int64_t{tokens} * options_.shape.num_sequence_groups(),
          std::int64_t{limits.max_running} * (1 + limits.max_drafts));
      memory.edits = config_.vocab_size * 4 * rows +
                     SampleRows::upload_bytes(config_.vocab_size, rows) +
                     Logprobs::scratch_bytes(rows, limits.max_logprobs);
    }
    memory.seats =
        seat_sizes(config_, options_.numbers.activations, limits.max_drafts).bytes_of_seat() *
            limits.max_running +
        RoutedExperts::bytes(config_.num_moe_layers(), config_.n_routed_experts);
  }
  if (!weights_.mtp.empty() && limits.max_drafts > 0) {
    PassShape rows = full, guesses = full;
    rows.logit_rows = limits.all_logits ? tokens : 0;
    guesses.tokens = guesses.logit_rows = sequences;
    memory.draft = std::max(run_drafts(rows), run_drafts(guesses));
  }
  if (options_.shape.moves_experts) memory.moves = run_moves();
  memory.scratch = plan_->scratch_bytes();
  if (limits.num_graphs > 0) {
    run({.tokens = sequences,
         .sequences = sequences,
         .length = limits.max_seq_len,
         .logit_rows = sequences,
         .routed = true});
    memory.graphs =
        limits.num_graphs * static_cast<std::int64_t>(plan_->calls().size()) * kGraphBytesOfCall;
  }
  return memory;
}

}  // namespace glint
