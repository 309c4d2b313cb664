#include "train/gradient_pass.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/str.h"
#include "runtime/score.h"

namespace glint {
namespace {

using Sequences = std::span<const std::vector<TokenId>>;

std::int64_t size_of(const std::vector<TokenId>& ids) {
  return static_cast<std::int64_t>(ids.size());
}

// The sequences, cut before each that would make a batch too large.
std::vector<Sequences> batches_of(const TokenSequences& all, std::int64_t batch_tokens) {
  std::vector<Sequences> batches;
  std::size_t begin = 0;
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i > begin && tokens + size_of(all[i]) > batch_tokens) {
      batches.push_back(Sequences(all).subspan(begin, i - begin));
      begin = i;
      tokens = 0;
    }
    tokens += size_of(all[i]);
  }
  batches.push_back(Sequences(all).subspan(begin));
  return batches;
}

int pages_of(const std::vector<TokenId>& ids) {
  return static_cast<int>((size_of(ids) + kPageSize - 1) / kPageSize);
}
int pages_of(Sequences sequences) {
  int pages = 0;
  for (const auto& ids : sequences) pages += pages_of(ids);
  return pages;
}

// The target of each row: the token `ahead` later in its sequence; -1 where there is none.
std::vector<std::int32_t> targets_of(Sequences sequences, std::size_t ahead) {
  std::vector<std::int32_t> targets;
  for (const auto& ids : sequences) {
    for (std::size_t t = 0; t < ids.size(); ++t) {
      targets.push_back(t + ahead < ids.size() ? ids[t + ahead] : -1);
    }
  }
  return targets;
}

// All of each sequence, `next` or not: of the draft layer, which sees the token after each row's.
// It sees no embedding at position 0; its last row predicts nothing, and no other row sees that.
StepPlan plan_of(Sequences sequences, bool next) {
  StepPlan plan;
  int page = 0;
  for (const std::vector<TokenId>& ids : sequences) {
    std::vector<PageId> pages(static_cast<std::size_t>(pages_of(ids)));
    std::iota(pages.begin(), pages.end(), page);
    page += pages_of(ids);
    std::vector<TokenId> tokens = ids;
    if (next) {
      tokens.erase(tokens.begin());
      tokens.push_back(-1);
      tokens.front() = -1;
    }
    plan.add(0, tokens, pages, 0);
  }
  return plan;
}

template <class T>
Tensor upload(const std::vector<T>& values, Arena& arena) {
  const Tensor tensor = arena.take(kDTypeOf<T>, {static_cast<std::int64_t>(values.size())});
  arena.device().copy_in(tensor.data, values.data(), values.size() * sizeof(T));
  return tensor;
}

void copy(const Tensor& to, const Tensor& from, Device& device) {
  device.copy(to.data, from.data, from.bytes().size());
}

// Numbers that the loss is taken of, over all batches.
std::int64_t count_targets(const TokenSequences& sequences, std::int64_t ahead) {
  std::int64_t count = 0;
  for (const auto& ids : sequences) count += std::max<std::int64_t>(size_of(ids) - ahead, 0);
  return count;
}

Error interrupted() { return {ErrorCode::kUnavailable, "interrupted"}; }

}  // namespace

// One batch: its sequences, and what a pass over them chose and keeps.
class GradientPass::BatchPass {
 public:
  BatchPass(GradientPass& all, Sequences sequences, const LossOptions& options, const OnPart& done)
      : all_(all),
        m_(all.model_.model()),
        sequences_(sequences),
        options_(options),
        done_(done),
        arena_scope_(all.arena_),
        saved_scope_(all.saved_),
        batch_(build_batch(plan_of(sequences, false), all.model_.rotary_table(), all.arena_)),
        T_(batch_.token_ids.dim(0)),
        pass_(m_, batch_.view, T_, all.arena_) {}

  // Adds to the parameters' gradients and to `sums`; `scales` of both losses.
  Status run(const std::array<float, 2>& scales, LossSums& sums) {
    GLINT_TRY_STATUS(forward());
    head(scales, sums);
    if (!done_()) return interrupted();
    GLINT_TRY_STATUS(backward());
    all_.tape_.gradients().embed_back(
        {.op = {.ids = batch_.token_ids, .table = m_.weights.embed_tokens, .out = residual()},
         .dout = all_.shadow_.of(residual()),
         .dtable = all_.tape_.gradient_of(m_.weights.embed_tokens)});
    expect_no_remains({}, "the embedding");
    return done_() ? Status(Ok{}) : interrupted();
  }

 private:
  Status forward() {
    pass_.embed(batch_.token_ids);
    for (int i = 0; i < m_.config.num_hidden_layers; ++i) {
      inputs_.push_back(keep(pass_.residual()));
      const bool dense = m_.config.layers[static_cast<std::size_t>(i)].is_dense();
      routed_.push_back(dense ? Tensor{}
                              : all_.saved_.take(DType::kI32, {T_, m_.config.num_experts_per_tok}));
      pass_.layer(i, {.routed = routed_.back()});
      // A layer without an indexer attends to what the one before selected.
      const bool selects = static_cast<bool>(m_.weights.layers[i].attention.indexer);
      selected_.push_back(selects ? keep(pass_.selected) : selected_.back());
      if (!done_()) return interrupted();
    }
    pass_.residual();
    return Ok{};
  }

  // The final norm, the losses and the draft layer, and back to the gradient of the residual.
  void head(const std::array<float, 2>& scales, LossSums& sums) {
    const Arena::Retain retain(all_.arena_);
    const std::int64_t D = m_.config.hidden_size;
    const Tensor hidden = all_.arena_.take(m_.activations, {T_, D});
    record([&] { pass_.head(m_.weights.norm, {}, hidden, {}); });
    sums.nll +=
        loss(hidden, upload(targets_of(sequences_, 1), all_.saved_), scales[0], all_.on_logits);
    if (options_.mtp_weight > 0) {
      const Batch next =
          build_batch(plan_of(sequences_, true), all_.model_.rotary_table(), all_.arena_);
      const MtpArgs args = {.next_ids = next.token_ids,
                            .target = hidden,
                            .batch = next.view,
                            .selected = all_.arena_.take(DType::kI32, {T_, m_.config.index_topk}),
                            .hidden = all_.arena_.take(m_.activations, {T_, D})};
      record([&] { forward_mtp(m_, args, all_.arena_); });
      sums.mtp_nll +=
          loss(args.hidden, upload(targets_of(sequences_, 2), all_.saved_), scales[1], {});
    }
    all_.tape_.backward();
    expect_no_remains(residual(), "the head");
  }

  Status backward() {
    for (int i = m_.config.num_hidden_layers - 1; i >= 0; --i) {
      const Arena::Retain retain(all_.arena_);
      const auto at = static_cast<std::size_t>(i);
      copy(residual(), inputs_[at], all_.tape_.device());
      copy(pass_.selected, selected_[at], all_.tape_.device());
      record([&] {
        pass_.layer(i, {.routed = routed_[at],
                        .routed_given = static_cast<bool>(routed_[at]),
                        .selection_given = true});
        pass_.residual();
      });
      all_.shadow_.set_live(residual());
      all_.tape_.backward();
      expect_no_remains(residual(), "a layer");
      if (!done_()) return interrupted();
    }
    return Ok{};
  }

  // Sum of minus log-probabilities of the targets. The gradient of `scale` times that goes into
  // the head's and, through the shadow, into that of `hidden` [T, hidden]; some rows at a time.
  double loss(const Tensor& hidden, const Tensor& targets, float scale,
              const std::function<void(const Tensor&)>& on_logits) {
    constexpr std::int64_t kLogitBytes = std::int64_t{64} << 20;
    Gradients& gradients = all_.tape_.gradients();
    const Weight& head = m_.weights.lm_head;
    const Tensor dhidden = all_.shadow_.add_to(hidden);
    const std::int64_t most = std::max<std::int64_t>(kLogitBytes / (head.rows * 4), 1);
    double sum = 0;
    for (std::int64_t r = 0; r < T_; r += most) {
      const Arena::Scope scope(all_.scratch_);
      const std::int64_t rows = std::min(most, T_ - r);
      const Tensor logits = all_.scratch_.take(DType::kF32, {rows, head.rows});
      const LinearArgs product = {.x = hidden.slice(0, r, rows), .weight = head, .out = logits};
      m_.ops.linear(product);
      if (on_logits) on_logits(logits);
      std::vector<float> log_probs(static_cast<std::size_t>(rows));
      const Tensor results = all_.scratch_.take(DType::kF32, {rows});
      const std::vector<float> scales(log_probs.size(), scale);
      gradients.cross_entropy({.logits = logits,
                               .targets = targets.slice(0, r, rows),
                               .scales = upload(scales, all_.scratch_),
                               .temperature = options_.temperature,
                               .log_probs = results});
      gradients.linear_back({.op = product,
                             .dout = logits,
                             .dx = dhidden.slice(0, r, rows),
                             .dweight = all_.tape_.gradient_of(head.data)});
      all_.tape_.device().copy_out(log_probs.data(), results.data, log_probs.size() * 4);
      for (const float log_prob : log_probs) sum -= log_prob;
    }
    return sum;
  }

  void record(const std::function<void()>& run) {
    all_.tape_.record(all_.arena_, all_.shadow_, run);
  }
  // A copy that lives as long as the batch.
  Tensor keep(const Tensor& x) {
    const Tensor kept = all_.saved_.take(x.dtype, {x.dim(0), x.dim(1)});
    copy(kept, x, all_.tape_.device());
    return kept;
  }
  const Tensor& residual() const { return pass_.stream.x; }
  void expect_no_remains(const Tensor& except, const char* after) const {
    if (!all_.checks_remains) return;
    const std::string remains = all_.tape_.find_remains(except);
    GLINT_CHECK(remains.empty(), str("after ", after, ": ", remains));
  }

  GradientPass& all_;
  const Model m_;
  const Sequences sequences_;
  const LossOptions& options_;
  const OnPart& done_;
  const Arena::Scope arena_scope_, saved_scope_;
  const Batch batch_;
  const std::int64_t T_;
  Pass pass_;
  std::vector<Tensor> inputs_;    // of each layer: [T, hidden] f32
  std::vector<Tensor> routed_;    // [T, k] i32, empty of dense layers
  std::vector<Tensor> selected_;  // [T, index_topk] i32
};

GradientPass::GradientPass(LoadedModel& model, TapeOps& tape)
    : model_(model),
      tape_(tape),
      arena_(tape.device()),
      saved_(tape.device()),
      scratch_(tape.device()),
      shadow_(arena_) {
  GLINT_CHECK(&model.ops() == &tape, "the model runs on other ops");
}

int GradientPass::num_batches(const TokenSequences& sequences, std::int64_t batch_tokens) {
  return static_cast<int>(batches_of(sequences, batch_tokens).size());
}

Result<LossSums> GradientPass::run(const TokenSequences& sequences, const LossOptions& options,
                                   std::int64_t batch_tokens, const OnPart& on_part) {
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    GLINT_TRY_STATUS(check_sequence(model_, sequences[i]).in(str("sequence ", i + 1)));
  }
  const bool mtp = options.mtp_weight > 0;
  LossSums sums = {.tokens = count_targets(sequences, 1),
                   .mtp_tokens = mtp ? count_targets(sequences, 2) : 0};
  if (sums.tokens == 0) {
    return invalid("there is nothing to predict; give a sequence of at least 2 tokens");
  }
  if (mtp && !model_.has_mtp()) {
    return invalid("this checkpoint has no MTP layer, which the loss of one needs");
  }
  if (mtp && sums.mtp_tokens == 0) {
    return invalid(
        "there is nothing for the MTP layer to predict; give a sequence of at least 3 tokens");
  }
  const std::vector<Sequences> batches = batches_of(sequences, batch_tokens);
  int pages = 0;
  for (const Sequences batch : batches) pages = std::max(pages, pages_of(batch));
  GLINT_TRY_STATUS(model_.reserve_pages(pages));
  const std::array<float, 2> scales = {
      static_cast<float>(1.0 / static_cast<double>(sums.tokens)),
      mtp ? static_cast<float>(options.mtp_weight / static_cast<double>(sums.mtp_tokens)) : 0};
  const OnPart done = on_part ? on_part : [] { return true; };
  for (const Sequences batch : batches) {
    GLINT_TRY_STATUS(BatchPass(*this, batch, options, done).run(scales, sums));
  }
  if (!std::isfinite(sums.nll) || !std::isfinite(sums.mtp_nll)) {
    return invalid(
        str("the logits of ", model_.options().dir,
            " are not all numbers; `glint inspect --verify` finds NaN and infinity among "
            "weights"));
  }
  return sums;
}

}  // namespace glint
