#include "train/batch_pass.h"

#include <algorithm>
#include <numeric>

#include "base/str.h"
#include "comm/all_of.h"
#include "train/rank_agreement.h"

namespace glint {
namespace {

void copy(const Tensor& to, const Tensor& from, Device& device) {
  device.copy(to.data, from.data, from.bytes().size());
}

// The experts of a batch in MoE layer number `layer`, [T, k]. Of a last token that has none any do:
// no row that is looked at depends on it.
std::vector<std::int32_t> routes_of(BatchPass::Sequences sequences, const PackedRows& packed,
                                    int layer, const ModelConfig& config) {
  const auto k = static_cast<std::size_t>(config.num_experts_per_tok);
  const std::size_t a_token = static_cast<std::size_t>(config.num_moe_layers()) * k;
  std::vector<std::int32_t> routes;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const std::vector<std::int32_t>& given = sequences[i].routes;
    for (auto t = static_cast<std::size_t>(packed.shared[i]); t < sequences[i].ids.size(); ++t) {
      if (packed.row_of[i][t] < 0) continue;
      const std::size_t at = t * a_token + static_cast<std::size_t>(layer) * k;
      for (std::size_t j = 0; j < k; ++j) {
        const bool is_there = at + j < given.size();
        routes.push_back(is_there ? given[at + j] : static_cast<std::int32_t>(j));
      }
    }
  }
  return routes;
}

// This rank's rows of a batch, which know how many the ranks have that share the sequences, or the
// experts, with it.
PackedRows own_rows(PackedRows packed, const Mesh& host) {
  const Comm& cp = *host.cp;
  if (cp.size() > 1) packed = part_of(packed, cp.rank(), cp.size());
  if (host.ep->size() == 1) return packed;
  const auto all = all_of(static_cast<std::int32_t>(packed.size()), *host.ep);
  // The ranks of a replica have the same rows.
  packed.rows.all_tokens =
      std::accumulate(all.begin(), all.end(), std::int64_t{0}) / host.tp->size();
  return packed;
}

// The copies of keys that the layers of a batch make, while it lives.
class KeyCopies {
 public:
  KeyCopies(TapeOps& tape, const PackedRows& packed) : tape_(tape) {
    tape_.set_key_copies(packed.copies);
  }
  ~KeyCopies() { tape_.set_key_copies({}); }
  KeyCopies(const KeyCopies&) = delete;
  KeyCopies& operator=(const KeyCopies&) = delete;

 private:
  TapeOps& tape_;
};

}  // namespace

BatchPass::Work::Work(PassContext& context, const Model& m, const PackedRows& packed)
    : scope(context.arena),
      batch(build_batch(packed.rows, context.rotary_table, {}, m.ops, context.arena)),
      pass(m, batch.view, packed.size(), context.arena) {}

BatchPass::BatchPass(PassContext& context, Sequences sequences, const LossTerms& terms,
                     const OnPart& done, Arena& saved)
    : context_(context),
      m_(*context.model),
      sequences_(sequences),
      terms_(terms),
      done_(done),
      saved_(saved),
      saved_scope_(saved),
      packed_(own_rows(pack(sequences, m_.mesh.cp->size() == 1), context.host)),
      T_(packed_.size()),
      loss_(context, m_) {}

void BatchPass::begin() {
  work_.emplace(context_, m_, packed_);
  m_.partition.is_first() ? pass().embed(work_->batch.token_ids)
                          : pass().receive(m_.partition.stage - 1, {});
}

Status BatchPass::forward(bool keeps) {
  const bool given = std::any_of(sequences_.begin(), sequences_.end(),
                                 [](const TrainSequence& s) { return !s.routes.empty(); });
  int moe_layer = m_.config.num_moe_layers_before(m_.partition.layers.begin);
  const KeyCopies copies(context_.tape, packed_);
  std::optional<Record>& record = work_->record;
  if (keeps && context_.keeps_layers) record.emplace(context_);
  for (int i = m_.partition.layers.begin; i < m_.partition.layers.end; ++i) {
    const bool selects = static_cast<bool>(m_.weights.layers[i].attention.indexer);
    if (record) {
      record->marks.push_back(context_.tape.mark());
      if (selects) pass().selected = saved_.take(DType::kI32, {T_, m_.config.index_topk});
    } else if (keeps) {
      inputs_.push_back(keep(pass().residual()));
    }
    Tensor routed;
    if (!m_.config.layers[static_cast<std::size_t>(i)].is_dense()) {
      routed = saved_.take(DType::kI32, {T_, m_.config.num_experts_per_tok});
      if (given) {
        const auto routes = routes_of(sequences_, packed_, moe_layer, m_.config);
        context_.device().copy_in(routed.data, routes.data(), routes.size() * 4);
      }
      ++moe_layer;
    }
    routed_.push_back(routed);
    const LayerWeights& weights = m_.weights.layers[i];
    const LayerChoices choices = {.routed = routed, .routed_given = given && routed};
    const auto run = [&] {
      pass().attention(i, weights, choices);
      if (keeps && !record) answers_.push_back(keep(pass().stream.delta));
      pass().feed_forward(i, weights, choices);
      if (record) pass().residual();
    };
    record ? context_.record(run) : run();
    // A layer without an indexer attends to what the one before selected.
    if (keeps && !record) {
      selected_.push_back(selects || selected_.empty() ? keep(pass().selected) : selected_.back());
    }
    if (!done_()) return interrupted();
  }
  pass().residual();
  if (m_.partition.is_last()) return Ok{};
  pass().send(m_.partition.stage + 1, {});
  work_.reset();
  return m_.partition.is_first() || done_() ? Status(Ok{}) : interrupted();
}

Status BatchPass::backward(LossSums& sums) {
  if (m_.partition.is_last()) {
    head(sums);
    if (!done_()) return interrupted();
  } else {
    work_.emplace(context_, m_, packed_);
    m_.mesh.pp->recv(context_.shadow.of(residual()), m_.partition.stage + 1);
  }
  GLINT_TRY_STATUS(layers_back());
  m_.partition.is_first() ? embed_back() : keep_gradient();
  expect_no_remains({}, "the input of a stage");
  work_.reset();
  return done_() ? Status(Ok{}) : interrupted();
}

Status BatchPass::score(std::vector<TokenScores>& scores, bool drafts) {
  begin();
  GLINT_TRY_STATUS(forward(false));
  if (!m_.partition.is_last()) return Ok{};
  const Tensor hidden = context_.arena.take(m_.activations, {T_, m_.config.hidden_size});
  pass().head(m_.weights.norm, {}, hidden, {});
  for (const TrainSequence& sequence : sequences_) {
    TokenScores& one = scores.emplace_back();
    for (auto* values : {&one.log_probs, &one.entropies, &one.served}) {
      values->resize(sequence.ids.size());
    }
  }
  const std::span<TokenScores> mine = std::span(scores).last(sequences_.size());
  const LossRows tokens = loss_rows(sequences_, packed_, 1);
  const LossHead::Scores found = loss_.score(hidden, tokens, terms_.temperature, true);
  for (std::size_t i = 0; i < tokens.places.size(); ++i) {
    TokenScores& one = mine[tokens.places[i].sequence];
    const auto t = static_cast<std::size_t>(tokens.places[i].token);
    one.log_probs[t] = found.log_probs[i];
    one.entropies[t] = found.entropies[i];
    one.served[t] = found.served[i];
  }
  if (drafts) score_drafts(hidden, mine);
  return done_() ? Status(Ok{}) : interrupted();
}

void BatchPass::head(LossSums& sums) {
  const Arena::Retain retain(context_.arena);
  const std::size_t mark = context_.tape.mark();
  const std::int64_t D = m_.config.hidden_size;
  const Tensor hidden = context_.arena.take(m_.activations, {T_, D});
  context_.record([&] { pass().head(m_.weights.norm, {}, hidden, {}); });
  sums.nll +=
      loss_.add(hidden, loss_rows(sequences_, packed_, 1), terms_, context_.probes.on_logits);
  const bool drafts = terms_.mtp_scale != 0;
  if (drafts && !terms_.mtp_alone) sums.mtp_nll += add_drafts(hidden);
  context_.tape.backward(mark);
  if (drafts && terms_.mtp_alone) sums.mtp_nll += learn_drafts_alone(hidden);
  expect_no_remains(residual(), "the head");
}

double BatchPass::add_drafts(const Tensor& hidden) {
  const PackedRows draft = own_rows(pack_for_draft(sequences_), context_.host);
  const MtpArgs args = run_drafts(hidden, draft, [&](const auto& run) { context_.record(run); });
  return loss_.add(args.hidden, loss_rows(sequences_, draft, 2),
                   {.temperature = terms_.temperature, .scale = terms_.mtp_scale});
}

// After the backward pass of the head, which leaves zeros in the gradient of `hidden`.
double BatchPass::learn_drafts_alone(const Tensor& hidden) {
  TapeOps& tape = context_.tape;
  const auto train_both = [&](const Tensor& embedding, const Tensor& head) {
    tape.train(m_.weights.embed_tokens, embedding);
    tape.train(m_.weights.lm_head, head);
  };
  const Tensor embedding = tape.gradient_of(m_.weights.embed_tokens),
               head = tape.gradient_of(m_.weights.lm_head);
  train_both({}, {});
  const std::size_t mark = tape.mark();
  const double loss = add_drafts(hidden);
  tape.backward(mark);
  train_both(embedding, head);
  const Tensor stops_here = context_.shadow.of(hidden);
  fill_zero(context_.device(), stops_here.data, stops_here.bytes().size());
  return loss;
}

template <class Run>
MtpArgs BatchPass::run_drafts(const Tensor& hidden, const PackedRows& draft, const Run& run) {
  const std::int64_t T = draft.size();
  std::vector<std::int32_t> rows, routes;
  for (const auto& one : packed_.row_of) {
    std::ranges::copy_if(one, std::back_inserter(rows), [](std::int32_t row) { return row >= 0; });
  }
  for (const TrainSequence& sequence : sequences_) {
    routes.insert(routes.end(), sequence.draft_routes.begin(), sequence.draft_routes.end());
  }
  const Batch next = build_batch(draft.rows, context_.rotary_table, {}, m_.ops, context_.arena);
  MtpArgs args = {.next_ids = next.token_ids,
                  .batch = next.view,
                  .selected = context_.arena.take(DType::kI32, {T, m_.config.index_topk}),
                  .hidden = context_.arena.take(m_.activations, {T, m_.config.hidden_size})};
  run([&] { args.target = context_.gathered(hidden, rows); });
  if (!m_.config.layers[static_cast<std::size_t>(m_.config.num_hidden_layers)].is_dense()) {
    args.routed = context_.arena.take(DType::kI32, {T, m_.config.num_experts_per_tok});
    args.routed_given = !routes.empty();
    if (args.routed_given) {
      GLINT_CHECK(std::ssize(routes) == args.routed.size(), "the experts of all tokens, or none");
      context_.device().copy_in(args.routed.data, routes.data(), routes.size() * 4);
    }
  }
  run([&] { forward_mtp(m_, args, context_.arena); });
  return args;
}

void BatchPass::score_drafts(const Tensor& hidden, std::span<TokenScores> scores) {
  const PackedRows draft = own_rows(pack_for_draft(sequences_), context_.host);
  const MtpArgs args = run_drafts(hidden, draft, [](const auto& run) { run(); });
  const LossRows tokens = loss_rows(sequences_, draft, 2);
  const LossHead::Scores found = loss_.score(args.hidden, tokens, terms_.temperature, false);
  for (TokenScores& one : scores) one.draft_log_probs.resize(one.log_probs.size());
  for (std::size_t i = 0; i < tokens.places.size(); ++i) {
    const auto [sequence, token] = tokens.places[i];
    scores[sequence].draft_log_probs[static_cast<std::size_t>(token)] = found.log_probs[i];
  }
  if (!args.routed) return;
  const std::vector<std::int32_t> routes = download<std::int32_t>(args.routed, context_.device());
  auto from = routes.begin();
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const auto is_here = [](std::int32_t row) { return row >= 0; };
    const auto rows = std::ranges::count_if(draft.row_of[i], is_here);
    const auto end = from + rows * m_.config.num_experts_per_tok;
    scores[i].draft_routes.assign(from, end);
    from = end;
  }
}

Status BatchPass::layers_back() {
  const KeyCopies copies(context_.tape, packed_);
  for (int i = m_.partition.layers.end - 1; i >= m_.partition.layers.begin; --i) {
    if (work_->record) {
      context_.shadow.set_live(residual());
      context_.tape.backward(work_->record->marks[place_of(i)]);
    } else {
      feed_forward_back(i);
      attention_back(i);
    }
    expect_no_remains(residual(), "a layer");
    if (!done_()) return interrupted();
  }
  return Ok{};
}

// From the residual that enters the next layer, with the experts that the forward pass chose.
void BatchPass::feed_forward_back(int layer) {
  const Arena::Retain retain(context_.arena);
  const std::size_t at = place_of(layer);
  Stream& stream = pass().stream;
  copy(stream.x, inputs_[at], context_.device());
  copy(stream.delta, answers_[at], context_.device());
  stream.has_delta = true;
  context_.record([&] {
    pass().feed_forward(layer, m_.weights.layers[layer],
                        {.routed = routed_[at], .routed_given = static_cast<bool>(routed_[at])});
    pass().residual();
  });
  context_.shadow.set_live(stream.x);
  context_.tape.backward();
}

// From what the feed-forward network read, with the keys that the forward pass selected.
void BatchPass::attention_back(int layer) {
  const Arena::Retain retain(context_.arena);
  const std::size_t at = place_of(layer);
  Stream& stream = pass().stream;
  copy(stream.x, inputs_[at], context_.device());
  copy(pass().selected, selected_[at], context_.device());
  stream.has_delta = false;
  context_.record(
      [&] { pass().attention(layer, m_.weights.layers[layer], {.selection_given = true}); });
  context_.shadow.set_live(stream.x);
  context_.shadow.set_live(stream.delta);
  context_.tape.backward();
  stream.has_delta = false;
}

void BatchPass::embed_back() {
  const Arena::Retain retain(context_.arena);
  context_.record([&] { pass().embed(work_->batch.token_ids); });
  context_.shadow.set_live(residual());
  context_.tape.backward();
}

void BatchPass::keep_gradient() {
  const Tensor dout = context_.shadow.of(residual());
  gradient_ = keep(dout);
  fill_zero(context_.device(), dout.data, dout.bytes().size());
}

Tensor BatchPass::keep(const Tensor& x) {
  const Tensor kept = saved_.take(x.dtype, {x.dim(0), x.dim(1)});
  copy(kept, x, context_.device());
  return kept;
}

void BatchPass::expect_no_remains(const Tensor& except, const char* after) const {
  if (!context_.probes.checks_remains) return;
  const std::string remains = context_.tape.find_remains(except);
  GLINT_CHECK(remains.empty(), str("after ", after, ": ", remains));
}

}  // namespace glint
