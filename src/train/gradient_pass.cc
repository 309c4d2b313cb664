#include "train/gradient_pass.h"

#include <algorithm>
#include <cmath>

#include "base/str.h"
#include "comm/all_of.h"
#include "train/pipeline_stage.h"
#include "train/rank_agreement.h"

namespace glint {
namespace {

using Sequences = std::span<const TrainSequence>;

// Layers that are not computed again take at most one part in so many of free memory.
constexpr std::int64_t kShareOfLayers = 8;

Error no_numbers(const LoadedModel& model) {
  return invalid(
      str("the logits of ", model.options().dir,
          " are not all numbers; `glint inspect --verify` finds NaN and infinity among its "
          "weights, and where training made them a smaller learning rate helps"));
}

}  // namespace

GradientPass::GradientPass(LoadedModel& model, TapeOps& tape, const Mesh& host, int ranks)
    : model_(model), ranks_(ranks), context_(tape, host) {
  const ModelPartition& partition = model.partition();
  GLINT_CHECK(&model.ops() == &tape || partition.is_divided() || partition.shape.cp > 1,
              "the model runs on other ops");
}

int GradientPass::num_batches(Sequences sequences, std::int64_t batch_tokens, bool drafts) const {
  return static_cast<int>(own_batches(sequences, batch_tokens, drafts).size());
}

Status GradientPass::prepare(Sequences sequences, std::int64_t batch_tokens, PassKind kind) {
  kind.shares = shares();
  GLINT_TRY_STATUS(check_train_sequences(model_, sequences));
  if (kind.drafts && !model_.has_mtp()) {
    return invalid("this checkpoint has no MTP layer, which the loss of one needs");
  }
  // Also for no tokens, which meet the others'.
  BatchShape most = {.sequences = 1, .longest = 1, .pages = 1, .learns = kind.learns};
  for (const Sequences batch : own_batches(sequences, batch_tokens, kind.drafts)) {
    most = larger(most, batch_shape(batch, kind));
  }
  return make_room_on_all(most);
}

Status GradientPass::reserve(const BatchShape& most) {
  GLINT_TRY(const bool keeps, can_keep_layers(most));
  context_.keeps_layers = all_go_on(keeps, context_.host);
  return make_room_on_all(most);
}

Result<bool> GradientPass::can_keep_layers(const BatchShape& most) {
  if (!most.learns || !context_.device().is_host() || model_.partition().shape.pp > 1) return false;
  GLINT_TRY(const std::unique_ptr<PassTrial> trial, PassTrial::make(model_, context_.tape));
  GLINT_TRY(const PassMemory need, trial->run(most, true));
  return need.total() * ranks_ <= free_memory() / kShareOfLayers;
}

std::int64_t GradientPass::free_memory() {
  return context_.device().memory().available + held_ * ranks_;
}

Status GradientPass::make_room_on_all(const BatchShape& most) {
  const Status room = make_room(larger(reserved_, most));
  if (all_agree(room.ok(), context_.host) || !room.ok()) return room;
  return unavailable("another rank has no room for its batches");
}

Status GradientPass::make_room(const BatchShape& shape) {
  if (shape == reserved_) return Ok{};
  GLINT_TRY(const std::unique_ptr<PassTrial> trial, PassTrial::make(model_, context_.tape));
  GLINT_TRY(const PassMemory need, trial->run(shape, context_.keeps_layers));
  // A device tells by itself; a host lends memory that it lacks.
  const std::int64_t free = free_memory();
  const bool fits = !context_.device().is_host() || need.total() * ranks_ <= free;
  if (!fits || !reserve(*trial, need, shape)) {
    return exhausted(str("batches of ", with_commas(shape.rows), " tokens in sequences of up to ",
                         with_commas(shape.longest), " need ", human_bytes(need.total()),
                         ranks_ > 1 ? str(" on each of ", ranks_, " ranks") : "", ", and ",
                         human_bytes(free),
                         " are free; a smaller --batch-tokens and shorter sequences need less"));
  }
  reserved_ = shape;
  held_ = need.total();
  return Ok{};
}

bool GradientPass::reserve(PassTrial& trial, const PassMemory& need, const BatchShape& shape) {
  if (shape.pages > model_.num_pages() && !model_.reserve_pages(shape.pages).ok()) return false;
  context_.use(model_.model(), model_.rotary_table());
  const auto reserve = [](Arena& arena, std::int64_t bytes) {
    return arena.reserve(static_cast<std::size_t>(bytes));
  };
  bool has_room = trial.reserve_scratch() && reserve(context_.arena, need.pass);
  for (std::size_t i = 0; i < need.num_saved; ++i) {
    has_room = has_room && reserve(context_.saved(i), need.saved);
  }
  const LatentCache& cache = model_.kv().layer(model_.partition().layers.begin).latent;
  return has_room && (!shape.learns ||
                      (context_.shadow.reserve() && context_.tape.reserve(cache, need.exchanged)));
}

PassMemory GradientPass::used_memory() {
  const auto most = [](const Arena& arena) {
    return static_cast<std::int64_t>(arena.high_water());
  };
  return {.pass = most(context_.arena),
          .saved = most(context_.saved(0)),
          .scratch = model_.backend().scratch_bytes(),
          .gradients = context_.gradients().scratch_bytes(),
          .exchanged = context_.tape.scratch_bytes()};
}

// The draft layer computes all rows of each sequence, so its batches count them.
std::vector<Sequences> GradientPass::own_batches(Sequences sequences, std::int64_t batch_tokens,
                                                 bool drafts) const {
  return batches_of(sequences, batch_tokens, shares() && !drafts);
}

// Ranks that share experts run as many batches each, of which some may be empty.
std::vector<Sequences> GradientPass::batches(Sequences sequences, std::int64_t batch_tokens,
                                             bool drafts) const {
  const Mesh& mesh = context_.host;
  std::vector<Sequences> all = own_batches(sequences, batch_tokens, drafts);
  if (mesh.ep->size() > 1) {
    const auto counts = all_of(static_cast<std::int32_t>(all.size()), *mesh.ep);
    all.resize(static_cast<std::size_t>(std::ranges::max(counts)), sequences.last(0));
  }
  return all;
}

// Between stages it is told with the next batch whether they go on.
GradientPass::OnPart GradientPass::after_part(const OnPart& on_part) const {
  if (model_.partition().shape.pp > 1) {
    return [&on_part] { return (!on_part || on_part()) || true; };
  }
  return [&on_part, this] { return all_go_on(!on_part || on_part(), context_.host); };
}

Result<LossSums> GradientPass::add(Sequences sequences, const LossTerms& terms,
                                   std::int64_t batch_tokens, const OnPart& on_part) {
  const bool mtp = terms.mtp_scale != 0;
  GLINT_TRY_STATUS(prepare(sequences, batch_tokens, {.drafts = mtp, .learns = true}));
  LossSums sums = {.tokens = count_targets(sequences, 1),
                   .mtp_tokens = mtp ? count_targets(sequences, 2) : 0};
  const std::vector<Sequences> all = batches(sequences, batch_tokens, mtp);
  const OnPart done = after_part(on_part);
  const auto make = [&](std::size_t i, Arena& saved) {
    LossTerms own = terms;
    own.first_sequence += static_cast<std::size_t>(all[i].data() - sequences.data());
    return std::make_unique<BatchPass>(context_, all[i], own, done, saved);
  };
  if (model_.partition().shape.pp > 1) {
    GLINT_TRY_STATUS(PipelineStage(context_, all.size(), on_part, make).run(sums));
  } else {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::unique_ptr<BatchPass> batch = make(i, context_.saved(0));
      batch->begin();
      GLINT_TRY_STATUS(batch->forward(true));
      GLINT_TRY_STATUS(batch->backward(sums));
    }
  }
  if (!std::isfinite(sums.nll) || !std::isfinite(sums.mtp_nll)) return no_numbers(model_);
  return sums;
}

Result<std::vector<TokenScores>> GradientPass::score(Sequences sequences, const ScoreTerms& terms,
                                                     std::int64_t batch_tokens,
                                                     const OnPart& on_part) {
  GLINT_TRY_STATUS(prepare(sequences, batch_tokens, {.drafts = terms.drafts}));
  const LossTerms loss = {.temperature = terms.temperature};
  const OnPart done = after_part(on_part);
  std::vector<TokenScores> scores;
  StageSignal signal(model_.partition(), context_.host);
  for (const Sequences batch : batches(sequences, batch_tokens, terms.drafts)) {
    if (model_.partition().shape.pp > 1) {
      signal.hear(on_part);
      signal.tell();
      if (!signal.goes_on()) return interrupted();
    }
    GLINT_TRY_STATUS(
        BatchPass(context_, batch, loss, done, context_.saved(0)).score(scores, terms.drafts));
  }
  return scores;
}

}  // namespace glint
