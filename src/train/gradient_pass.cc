#include "train/gradient_pass.h"

#include <algorithm>
#include <cmath>

#include "base/str.h"
#include "train/packed_rows.h"
#include "train/pipeline_stage.h"
#include "train/rank_agreement.h"

namespace glint {
namespace {

using Sequences = std::span<const TrainSequence>;

Error no_numbers(const LoadedModel& model) {
  return invalid(
      str("the logits of ", model.options().dir,
          " are not all numbers; `glint inspect --verify` finds NaN and infinity among its "
          "weights, and where training made them a smaller learning rate helps"));
}

}  // namespace

GradientPass::GradientPass(LoadedModel& model, TapeOps& tape)
    : model_(model), context_(model, tape) {
  const ShardPlan& shard = model.shard();
  GLINT_CHECK(&model.ops() == &tape || shard.is_divided() || shard.shape.cp > 1,
              "the model runs on other ops");
}

int GradientPass::num_batches(Sequences sequences, std::int64_t batch_tokens) const {
  return static_cast<int>(batches_of(sequences, batch_tokens).size());
}

Status GradientPass::prepare(Sequences sequences, bool mtp, std::int64_t batch_tokens) {
  GLINT_TRY_STATUS(check_train_sequences(model_, sequences));
  if (mtp && !model_.has_mtp()) {
    return invalid("this checkpoint has no MTP layer, which the loss of one needs");
  }
  int pages = 1;  // also for no tokens, which meet the others'
  for (const Sequences batch : batches_of(sequences, batch_tokens)) {
    const bool shares = !mtp && model_.shard().shape.cp == 1;
    pages = std::max(pages, pack(batch, shares).num_pages);
  }
  const Status room = pages > model_.num_pages() ? model_.reserve_pages(pages) : Status(Ok{});
  if (all_agree(room.ok(), model_.options().mesh) || !room.ok()) return room;
  return unavailable("another rank has no room for its caches");
}

// Ranks that share experts run as many batches each, of which some may be empty.
std::vector<std::span<const TrainSequence>> GradientPass::batches(Sequences sequences,
                                                                  std::int64_t batch_tokens) const {
  const Mesh& mesh = model_.options().mesh;
  std::vector<Sequences> all = batches_of(sequences, batch_tokens);
  if (mesh.ep->size() > 1) {
    const auto counts = all_of(static_cast<std::int32_t>(all.size()), *mesh.ep);
    all.resize(static_cast<std::size_t>(std::ranges::max(counts)), sequences.last(0));
  }
  return all;
}

// Between stages it is told with the next batch whether they go on.
GradientPass::OnPart GradientPass::after_part(const OnPart& on_part) const {
  if (model_.shard().shape.pp > 1) {
    return [&on_part] { return (!on_part || on_part()) || true; };
  }
  return [&on_part, this] { return all_go_on(!on_part || on_part(), model_.options().mesh); };
}

Result<LossSums> GradientPass::add(Sequences sequences, const LossTerms& terms,
                                   std::int64_t batch_tokens, const OnPart& on_part) {
  const bool mtp = terms.mtp_scale != 0;
  GLINT_TRY_STATUS(prepare(sequences, mtp, batch_tokens));
  LossSums sums = {.tokens = count_targets(sequences, 1),
                   .mtp_tokens = mtp ? count_targets(sequences, 2) : 0};
  const std::vector<Sequences> all = batches(sequences, batch_tokens);
  const OnPart done = after_part(on_part);
  const auto make = [&](std::size_t i, Arena& saved) {
    LossTerms own = terms;
    own.first_sequence += static_cast<std::size_t>(all[i].data() - sequences.data());
    return std::make_unique<BatchPass>(context_, all[i], own, done, saved);
  };
  if (model_.shard().shape.pp > 1) {
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

Result<std::vector<TokenScores>> GradientPass::score(Sequences sequences, float temperature,
                                                     std::int64_t batch_tokens,
                                                     const OnPart& on_part, bool drafts) {
  GLINT_TRY_STATUS(prepare(sequences, drafts, batch_tokens));
  const LossTerms terms = {.temperature = temperature};
  const OnPart done = after_part(on_part);
  std::vector<TokenScores> scores;
  StageSignal signal(model_.shard(), model_.options().mesh);
  for (const Sequences batch : batches(sequences, batch_tokens)) {
    if (model_.shard().shape.pp > 1) {
      signal.hear(on_part);
      signal.tell();
      if (!signal.goes_on()) return interrupted();
    }
    GLINT_TRY_STATUS(
        BatchPass(context_, batch, terms, done, context_.saved(0)).score(scores, drafts));
  }
  return scores;
}

}  // namespace glint
