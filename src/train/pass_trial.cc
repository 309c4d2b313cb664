#include "train/pass_trial.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "runtime/memory_plan.h"
#include "tensor/huge_page.h"
#include "train/batch_pass.h"
#include "train/pipeline_stage.h"

namespace glint {
namespace {

// As large as a loss can be that a caller has of its own.
class NoLoss final : public TokenLoss {
 public:
  void weigh(std::size_t, std::int64_t, std::span<const float>, std::span<const float>,
             std::span<float>, std::span<float>) override {}
};

// Sequences of this shape: the first is the longest, the others have the rest of the rows, and
// share with the one before them what the draft layer has more rows of.
std::vector<TrainSequence> sequences_of(const BatchShape& shape) {
  std::vector<TrainSequence> all(1);
  all[0].ids.resize(static_cast<std::size_t>(shape.longest));
  const std::int64_t others = shape.sequences - 1;
  const std::int64_t rows = std::max<std::int64_t>(shape.rows - shape.longest, others);
  const std::int64_t twice = std::max<std::int64_t>(shape.draft_rows - shape.rows, 0);
  for (std::int64_t i = 0; i < others; ++i) {
    const std::int64_t shared = std::min(ceil_div(twice, others), shape.longest - 1);
    TrainSequence& one = all.emplace_back();
    one.ids.assign(static_cast<std::size_t>(shared), 0);
    const std::int64_t own = (i + 1) * rows / others - i * rows / others;
    one.ids.resize(static_cast<std::size_t>(shared + own), static_cast<TokenId>(i + 1));
  }
  std::int64_t left = shape.targets;
  for (TrainSequence& one : all) {
    for (std::size_t t = 0; t < one.ids.size(); ++t) {
      one.weights.push_back(t > 0 && left > 0 ? 1 : 0);
      left -= one.weights.back() != 0;
    }
  }
  return all;
}

}  // namespace

Result<std::unique_ptr<PassTrial>> PassTrial::make(LoadedModel& model, TapeOps& tape) {
  std::unique_ptr<PassTrial> t(new PassTrial(model));
  GLINT_TRY(t->trial_, StepTrial::make(model.config(), trial_options(model)));
  std::unique_ptr<PlanOps> ops = model.backend().make_plan_ops(t->device_);
  t->ops_ = ops.get();
  std::unique_ptr<PlanGradients> gradients = tape.gradients().make_plan(*ops);
  t->gradients_ = gradients.get();
  auto own = std::make_unique<TapeOps>(std::move(ops), std::move(gradients));
  t->tape_ = own.get();
  const Mesh mesh = t->trial_->model().mesh;
  t->tp_.emplace(*mesh.tp, *own);
  t->cp_.emplace(*mesh.cp, *own);
  t->ep_.emplace(*mesh.ep, *own);
  t->decorated_ = t->trial_->meeting(std::move(own), *t->tp_, *t->cp_);
  return t;
}

Result<PassMemory> PassTrial::run(BatchShape shape, bool keeps_layers) {
  const int ranks = model_.options().shape.cp;
  if (ranks > 1) {  // a part may have no sequence's first token, which is no target
    const std::int64_t uneven = ranks * (1 + shape.sequences);
    shape.rows += uneven;
    shape.targets += uneven;
  }
  const std::vector<TrainSequence> sequences = sequences_of(shape);
  const ModelPartition& partition = trial_->partition();
  const KvOptions caches = {.latent = model_.options().numbers.latent,
                            .index = model_.options().numbers.index,
                            .num_pages = shape.pages,
                            .with_mtp = model_.has_mtp(),
                            .layers = partition.layers};
  GLINT_TRY(KvStore kv, KvStore::make(model_.config(), caches, device_));
  const Model planned = trial_->model();
  // A sequence alone in its batch scores most keys at once.
  ops_->reset({.sequences = 1, .longest = static_cast<double>(shape.longest)});

  PassContext context(*tape_, planned.mesh);
  Tensor table = context.arena.take(DType::kF32, {0, model_.config().qk_rope_head_dim});
  table.shape[0] = std::max(shape.rows, shape.longest);
  const Mesh mesh = {.tp = &*tp_, .cp = &*cp_, .ep = &*ep_, .pp = planned.mesh.pp};
  context.use({*decorated_, mesh, partition, model_.config(), trial_->weights(), kv,
               planned.activations, planned.activity, planned.expert_tables},
              table);
  context.keeps_layers = keeps_layers;
  NoLoss loss;
  const LossTerms terms = {.mtp_scale = shape.draft_rows > 0 ? 1.0 : 0.0, .loss = &loss};
  const GradientSource::OnPart goes_on = [] { return true; };
  const auto make_pass = [&] {
    return BatchPass(context, sequences, terms, goes_on, context.saved(0));
  };
  std::vector<TokenScores> scores;
  GLINT_TRY_STATUS(make_pass().score(scores, shape.draft_rows > 0));
  if (shape.learns) {
    LossSums sums;
    BatchPass pass = make_pass();
    pass.begin();
    GLINT_TRY_STATUS(pass.forward(true));
    GLINT_TRY_STATUS(pass.backward(sums));
  }
  const auto most = [](const Arena& arena) {
    return static_cast<std::int64_t>(arena.high_water());
  };
  PassMemory memory = {.pass = most(context.arena),
                       .saved = most(context.saved(0)),
                       .cache = shape.pages * page_bytes(model_.config(), caches),
                       .scratch = ops_->scratch_bytes(),
                       .gradients = gradients_->scratch_bytes(),
                       .exchanged = tape_->scratch_bytes(),
                       .num_saved = PipelineStage::num_saved(partition)};
  if (shape.learns) {
    const std::int64_t width = model_.config().kv_lora_rank + model_.config().qk_rope_head_dim;
    memory.shadow = 3 * memory.pass;
    memory.cache += shape.pages * kPageSize * width * static_cast<std::int64_t>(sizeof(float));
  }
  constexpr std::int64_t kStretches = 8;  // and one on its way
  if (model_.backend().device().is_host()) {
    memory.edges = (kStretches + static_cast<std::int64_t>(memory.num_saved)) * kHugePage;
  }
  return memory;
}

}  // namespace glint
