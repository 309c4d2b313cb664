#include "train/gradient_pass.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/str.h"
#include "model/divided_ops.h"
#include "ops/logit_rows.h"
#include "tensor/transfer.h"
#include "train/packed_rows.h"

namespace glint {
namespace {

using Sequences = std::span<const TrainSequence>;

void copy(const Tensor& to, const Tensor& from, Device& device) {
  device.copy(to.data, from.data, from.bytes().size());
}

// The experts of a batch in MoE layer number `layer`, [T, k]. Of a last token that has none any do:
// no row that is looked at depends on it.
std::vector<std::int32_t> routes_of(Sequences sequences, const PackedRows& packed, int layer,
                                    const ModelConfig& config) {
  const auto k = static_cast<std::size_t>(config.num_experts_per_tok);
  const std::size_t a_token = static_cast<std::size_t>(num_moe_layers(config)) * k;
  std::vector<std::int32_t> routes;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const std::vector<std::int32_t>& given = sequences[i].routes;
    for (auto t = static_cast<std::size_t>(packed.shared[i]); t < sequences[i].ids.size(); ++t) {
      const std::size_t at = t * a_token + static_cast<std::size_t>(layer) * k;
      for (std::size_t j = 0; j < k; ++j) {
        const bool is_there = at + j < given.size();
        routes.push_back(is_there ? given[at + j] : static_cast<std::int32_t>(j));
      }
    }
  }
  return routes;
}

Error no_numbers(const LoadedModel& model) {
  return invalid(str("the logits of ", model.options().dir,
                     " are not all numbers; `glint inspect --verify` finds NaN and infinity among "
                     "weights"));
}

Error interrupted() { return {ErrorCode::kUnavailable, "interrupted"}; }

// A value of each rank of a group.
std::vector<std::int32_t> all_of(std::int32_t mine, Comm& comm) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(comm.size()));
  const auto tensor = [](std::int32_t* values, int count) {
    return Tensor(reinterpret_cast<std::byte*>(values), DType::kI32, {count});
  };
  comm.all_gather(tensor(&mine, 1), tensor(all.data(), comm.size()));
  return all;
}

// Ranks that divide a layer meet in each: they go on together, or not at all.
bool all_go_on(bool own, const Mesh& mesh) {
  for (Comm* const group : {mesh.tp, mesh.ep}) {
    if (group->size() == 1) continue;
    const auto all = all_of(own, *group);
    own = std::ranges::find(all, 0) == all.end();
  }
  return own;
}

// The rows of a batch, which know how many the ranks have that share experts with this one.
PackedRows counted(PackedRows packed, const Model& m) {
  if (m.mesh.ep->size() == 1) return packed;
  const auto all = all_of(static_cast<std::int32_t>(packed.size()), *m.mesh.ep);
  packed.rows.all_tokens = std::accumulate(all.begin(), all.end(), std::int64_t{0});
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

// One batch: its sequences, and what a pass over them chose and keeps.
class GradientPass::BatchPass {
 public:
  // `first`: the number of the first sequence among all of the call.
  BatchPass(GradientPass& all, Sequences sequences, std::size_t first, const LossTerms& terms,
            const OnPart& done)
      : all_(all),
        m_(all.model_.model()),
        sequences_(sequences),
        first_(first),
        terms_(terms),
        done_(done),
        arena_scope_(all.arena_),
        saved_scope_(all.saved_),
        packed_(counted(pack(sequences, true), m_)),
        batch_(
            build_batch(packed_.rows, all.model_.rotary_table(), {}, all.model_.ops(), all.arena_)),
        T_(packed_.size()),
        pass_(m_, batch_.view, T_, all.arena_) {}

  // Adds to the parameters' gradients and to `sums`.
  Status run(LossSums& sums) {
    GLINT_TRY_STATUS(forward(true));
    head(sums);
    if (!done_()) return interrupted();
    GLINT_TRY_STATUS(backward());
    embed_back();
    expect_no_remains({}, "the embedding");
    return done_() ? Status(Ok{}) : interrupted();
  }

  // Adds one result a sequence.
  Status score(std::vector<TokenScores>& scores, bool drafts) {
    GLINT_TRY_STATUS(forward(false));
    const Tensor hidden = all_.arena_.take(m_.activations, {T_, m_.config.hidden_size});
    pass_.head(m_.weights.norm, {}, hidden, {});
    for (const TrainSequence& sequence : sequences_) {
      TokenScores& one = scores.emplace_back();
      for (auto* values : {&one.log_probs, &one.entropies, &one.served}) {
        values->resize(sequence.ids.size());
      }
    }
    const std::span<TokenScores> mine = std::span(scores).last(sequences_.size());
    const LossRows loss = loss_rows(sequences_, packed_, 1);
    const Tensor ids = upload(loss.ids, {loss.size()}, all_.saved_);
    const Tensor predicting = gathered(hidden, loss.rows);
    for (const Rows rows : chunks(loss.size())) {
      const Arena::Scope scope(all_.scratch_);
      const Tensor logits = logits_of(predicting, rows).all;
      const RowScores found = scores_of(logits, ids, rows);
      const std::vector<float> served = served_of(logits, ids, rows);
      for (std::size_t r = 0; r < found.log_probs.size(); ++r) {
        const std::size_t at = static_cast<std::size_t>(rows.first) + r;
        TokenScores& one = mine[loss.places[at].sequence];
        const auto t = static_cast<std::size_t>(loss.places[at].token);
        one.log_probs[t] = found.log_probs[r];
        one.entropies[t] = found.entropies[r];
        one.served[t] = served[r];
      }
    }
    if (drafts) score_drafts(hidden, mine);
    return done_() ? Status(Ok{}) : interrupted();
  }

 private:
  // `keeps` what a backward pass needs.
  Status forward(bool keeps) {
    const bool given = std::any_of(sequences_.begin(), sequences_.end(),
                                   [](const TrainSequence& s) { return !s.routes.empty(); });
    int moe_layer = 0;
    pass_.embed(batch_.token_ids);
    const KeyCopies copies(all_.tape_, packed_);
    for (int i = 0; i < m_.config.num_hidden_layers; ++i) {
      if (keeps) inputs_.push_back(keep(pass_.residual()));
      Tensor routed;
      if (!m_.config.layers[static_cast<std::size_t>(i)].is_dense()) {
        routed = all_.saved_.take(DType::kI32, {T_, m_.config.num_experts_per_tok});
        if (given) {
          const auto routes = routes_of(sequences_, packed_, moe_layer, m_.config);
          device().copy_in(routed.data, routes.data(), routes.size() * 4);
        }
        ++moe_layer;
      }
      routed_.push_back(routed);
      pass_.layer(i, {.routed = routed, .routed_given = given && routed});
      // A layer without an indexer attends to what the one before selected.
      const bool selects = static_cast<bool>(m_.weights.layers[i].attention.indexer);
      if (keeps) selected_.push_back(selects ? keep(pass_.selected) : selected_.back());
      if (!done_()) return interrupted();
    }
    pass_.residual();
    return Ok{};
  }

  // The final norm, the losses and the draft layer, and back to the gradient of the residual.
  void head(LossSums& sums) {
    const Arena::Retain retain(all_.arena_);
    const std::int64_t D = m_.config.hidden_size;
    const Tensor hidden = all_.arena_.take(m_.activations, {T_, D});
    record([&] { pass_.head(m_.weights.norm, {}, hidden, {}); });
    sums.nll +=
        loss(hidden, loss_rows(sequences_, packed_, 1), terms_.scale, terms_.loss, all_.on_logits);
    if (terms_.mtp_scale != 0) {
      const PackedRows draft = counted(pack_for_draft(sequences_), m_);
      const MtpArgs args = run_drafts(hidden, draft, [&](const auto& run) { record(run); });
      sums.mtp_nll +=
          loss(args.hidden, loss_rows(sequences_, draft, 2), terms_.mtp_scale, nullptr, {});
    }
    all_.tape_.backward();
    expect_no_remains(residual(), "the head");
  }

  // The draft layer on the final states of all rows, each part of it by `run`.
  template <class Run>
  MtpArgs run_drafts(const Tensor& hidden, const PackedRows& draft, const Run& run) {
    const std::int64_t T = draft.size();
    std::vector<std::int32_t> rows, routes;
    for (const auto& one : packed_.row_of) rows.insert(rows.end(), one.begin(), one.end());
    for (const TrainSequence& sequence : sequences_) {
      routes.insert(routes.end(), sequence.draft_routes.begin(), sequence.draft_routes.end());
    }
    const Batch next =
        build_batch(draft.rows, all_.model_.rotary_table(), {}, all_.model_.ops(), all_.arena_);
    MtpArgs args = {.next_ids = next.token_ids,
                    .batch = next.view,
                    .selected = all_.arena_.take(DType::kI32, {T, m_.config.index_topk}),
                    .hidden = all_.arena_.take(m_.activations, {T, m_.config.hidden_size})};
    run([&] { args.target = gathered(hidden, rows); });
    if (!m_.config.layers[static_cast<std::size_t>(m_.config.num_hidden_layers)].is_dense()) {
      args.routed = all_.arena_.take(DType::kI32, {T, m_.config.num_experts_per_tok});
      args.routed_given = !routes.empty();
      if (args.routed_given) {
        GLINT_CHECK(std::ssize(routes) == args.routed.size(), "the experts of all tokens, or none");
        device().copy_in(args.routed.data, routes.data(), routes.size() * 4);
      }
    }
    run([&] { forward_mtp(m_, args, all_.arena_); });
    return args;
  }

  void score_drafts(const Tensor& hidden, std::span<TokenScores> scores) {
    const PackedRows draft = counted(pack_for_draft(sequences_), m_);
    const MtpArgs args = run_drafts(hidden, draft, [](const auto& run) { run(); });
    const LossRows loss = loss_rows(sequences_, draft, 2);
    const Tensor ids = upload(loss.ids, {loss.size()}, all_.saved_);
    const Tensor predicting = gathered(args.hidden, loss.rows);
    for (TokenScores& one : scores) one.draft_log_probs.resize(one.log_probs.size());
    for (const Rows rows : chunks(loss.size())) {
      const Arena::Scope scope(all_.scratch_);
      const RowScores found = scores_of(logits_of(predicting, rows).all, ids, rows);
      for (std::size_t r = 0; r < found.log_probs.size(); ++r) {
        const LossRows::Place& place = loss.places[static_cast<std::size_t>(rows.first) + r];
        scores[place.sequence].draft_log_probs[static_cast<std::size_t>(place.token)] =
            found.log_probs[r];
      }
    }
    if (!args.routed) return;
    const std::vector<std::int32_t> routes = download<std::int32_t>(args.routed, device());
    auto from = routes.begin();
    for (TokenScores& one : scores) {
      const auto end = from + std::ssize(one.log_probs) * m_.config.num_experts_per_tok;
      one.draft_routes.assign(from, end);
      from = end;
    }
  }

  Status backward() {
    const KeyCopies copies(all_.tape_, packed_);
    for (int i = m_.config.num_hidden_layers - 1; i >= 0; --i) {
      const Arena::Retain retain(all_.arena_);
      const auto at = static_cast<std::size_t>(i);
      copy(residual(), inputs_[at], device());
      copy(pass_.selected, selected_[at], device());
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

  // Where the vocabulary is divided, each rank has the whole gradient of its tokens' rows.
  void embed_back() {
    const Tensor dout = all_.shadow_.of(residual());
    Tensor ids = batch_.token_ids;
    if (Comm& tp = *m_.mesh.tp; tp.size() > 1) {
      tp.all_reduce(dout, dout);
      const auto here = static_cast<std::int32_t>(m_.weights.embed_tokens.dim(0));
      std::vector<std::int32_t> own = packed_.rows.tokens;
      for (std::int32_t& id : own) id = id / here == tp.rank() ? id % here : -1;
      ids = upload(own, {T_}, all_.saved_);
    }
    all_.tape_.gradients().embed_back(
        {.op = {.ids = ids, .table = m_.weights.embed_tokens, .out = residual()},
         .dout = dout,
         .dtable = all_.tape_.gradient_of(m_.weights.embed_tokens)});
  }

  // Some rows, whose logits exist at once.
  struct Rows {
    std::int64_t first = 0, count = 0;
  };
  std::vector<Rows> chunks(std::int64_t count) const {
    constexpr std::int64_t kLogitBytes = std::int64_t{64} << 20;
    const std::int64_t most = std::max<std::int64_t>(kLogitBytes / (V() * 4), 1);
    std::vector<Rows> all;
    for (std::int64_t r = 0; r < count; r += most) all.push_back({r, std::min(most, count - r)});
    return all;
  }
  std::int64_t V() const { return m_.config.vocab_size; }

  // [R, hidden]: the rows that tokens are predicted from.
  Tensor gathered(const Tensor& hidden, const std::vector<std::int32_t>& rows) {
    const auto R = static_cast<std::int64_t>(rows.size());
    const Tensor out = all_.arena_.take(hidden.dtype, {R, hidden.dim(1)});
    m_.ops.gather_rows({.x = hidden, .rows = upload(rows, {R}, all_.arena_), .out = out});
    return out;
  }

  // The product of this rank's part of the head, and the logits that it and the others' make.
  struct Logits {
    LinearArgs product = {};
    Tensor all = {};
  };
  Logits logits_of(const Tensor& hidden, const Rows& rows) {
    const Weight& head = m_.weights.lm_head;
    const LinearArgs product = {.x = hidden.slice(0, rows.first, rows.count),
                                .weight = head,
                                .out = all_.scratch_.take(DType::kF32, {rows.count, head.rows})};
    m_.ops.linear(product);
    return {product, gather_logits(m_, product.out, all_.scratch_)};
  }

  struct RowScores {
    std::vector<float> log_probs, entropies;
  };
  RowScores scores_of(const Tensor& logits, const Tensor& targets, const Rows& rows) {
    const LogProbsArgs args = {.logits = logits,
                               .targets = targets.slice(0, rows.first, rows.count),
                               .temperature = terms_.temperature,
                               .log_probs = all_.scratch_.take(DType::kF32, {rows.count}),
                               .entropies = all_.scratch_.take(DType::kF32, {rows.count})};
    all_.tape_.gradients().log_probs(args);
    return {download<float>(args.log_probs, device()), download<float>(args.entropies, device())};
  }

  // Log-probabilities as serving computes them.
  std::vector<float> served_of(const Tensor& logits, const Tensor& targets, const Rows& rows) {
    std::vector<std::int32_t> all(static_cast<std::size_t>(rows.count));
    std::iota(all.begin(), all.end(), 0);
    const auto take = [&](DType dtype, std::int64_t columns) {
      return all_.scratch_.take(dtype, {rows.count, columns});
    };
    const Tensor log_probs = all_.scratch_.take(DType::kF32, {rows.count});
    m_.ops.token_log_probs({.logits = logits,
                            .rows = upload(all, {rows.count}, all_.scratch_),
                            .ids = targets.slice(0, rows.first, rows.count),
                            .num_ids = V(),
                            .log_probs = log_probs,
                            .ranks = all_.scratch_.take(DType::kI32, {rows.count}),
                            .top_ids = take(DType::kI32, 0),
                            .top_log_probs = take(DType::kF32, 0)});
    return download<float>(log_probs, device());
  }

  // Minus the derivatives of the loss by log-probabilities and entropies of `rows`.
  struct Scales {
    std::vector<float> log_probs, entropies;
  };
  Scales weigh(TokenLoss& loss, const RowScores& scores, std::span<const LossRows::Place> places) {
    Scales scales;
    scales.log_probs.resize(places.size());
    scales.entropies.resize(places.size());
    if (m_.mesh.tp->rank() > 0) return scales;  // the first tells all
    for (std::size_t at = 0, end = 0; at < places.size(); at = end) {
      const LossRows::Place& first = places[at];
      const auto follows = [&](std::size_t i) {
        return places[i].sequence == first.sequence &&
               places[i].token == first.token + static_cast<std::int64_t>(i - at);
      };
      for (end = at; end < places.size() && follows(end);) ++end;
      const auto part = [&](auto& values) { return std::span(values).subspan(at, end - at); };
      loss.weigh(first_ + first.sequence, first.token, part(scores.log_probs),
                 part(scores.entropies), part(scales.log_probs), part(scales.entropies));
    }
    for (auto* derivatives : {&scales.log_probs, &scales.entropies}) {
      for (float& x : *derivatives) x = -x;
    }
    return scales;
  }

  Device& device() { return all_.tape_.device(); }

  // Sum of minus log-probabilities of `tokens`, times their weights. The gradient of `scale` times
  // that, or of `own`, goes into the head's and, through the shadow, into that of `hidden`, some
  // rows at a time.
  double loss(const Tensor& hidden, const LossRows& tokens, double scale, TokenLoss* own,
              const std::function<void(const Tensor&)>& on_logits) {
    if (tokens.size() == 0) return 0;
    Gradients& gradients = all_.tape_.gradients();
    Tensor predicting;
    record([&] { predicting = gathered(hidden, tokens.rows); });
    const Tensor dhidden = all_.shadow_.add_to(predicting);
    const Tensor ids = upload(tokens.ids, {tokens.size()}, all_.saved_);
    double sum = 0;
    for (const Rows rows : chunks(tokens.size())) {
      const Arena::Scope scope(all_.scratch_);
      const auto [product, logits] = logits_of(predicting, rows);
      if (on_logits) on_logits(logits);
      const float* const weights = &tokens.weights[static_cast<std::size_t>(rows.first)];
      CrossEntropyArgs args = {.logits = logits,
                               .targets = ids.slice(0, rows.first, rows.count),
                               .temperature = terms_.temperature,
                               .log_probs = all_.scratch_.take(DType::kF32, {rows.count})};
      if (own) {
        const auto places = std::span(tokens.places)
                                .subspan(static_cast<std::size_t>(rows.first),
                                         static_cast<std::size_t>(rows.count));
        const Scales scales = weigh(*own, scores_of(logits, ids, rows), places);
        args.scales = upload(scales.log_probs, {rows.count}, all_.scratch_);
        args.entropy_scales = upload(scales.entropies, {rows.count}, all_.scratch_);
        for (const Tensor& one : {args.scales, args.entropy_scales}) m_.mesh.tp->broadcast(one, 0);
      } else {
        std::vector<float> scales;
        for (std::int64_t r = 0; r < rows.count; ++r) {
          scales.push_back(static_cast<float>(scale * weights[r]));
        }
        args.scales = upload(scales, {rows.count}, all_.scratch_);
      }
      gradients.cross_entropy(args);
      if (m_.mesh.tp->size() > 1) own_logits(m_, logits, product.out);
      gradients.linear_back({.op = product,
                             .dout = product.out,
                             .dx = dhidden.slice(0, rows.first, rows.count),
                             .dweight = all_.tape_.gradient_of(m_.weights.lm_head.data)});
      const std::vector<float> log_probs = download<float>(args.log_probs, device());
      for (std::int64_t r = 0; r < rows.count; ++r) {
        sum -= weights[r] * log_probs[static_cast<std::size_t>(r)];
      }
    }
    return sum;
  }

  void record(const std::function<void()>& run) {
    all_.tape_.record(all_.arena_, all_.shadow_, run);
  }
  // A copy that lives as long as the batch.
  Tensor keep(const Tensor& x) {
    const Tensor kept = all_.saved_.take(x.dtype, {x.dim(0), x.dim(1)});
    copy(kept, x, device());
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
  const std::size_t first_;
  const LossTerms& terms_;
  const OnPart& done_;
  const Arena::Scope arena_scope_, saved_scope_;
  const PackedRows packed_;
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
  GLINT_CHECK(&model.ops() == &tape || model.shard().is_divided(), "the model runs on other ops");
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
    pages = std::max(pages, pack(batch, !mtp).num_pages);
  }
  const Status room = pages > model_.num_pages() ? model_.reserve_pages(pages) : Status(Ok{});
  if (all_go_on(room.ok(), model_.options().mesh) || !room.ok()) return room;
  return Error{ErrorCode::kUnavailable, "another rank has no room for its caches"};
}

// Ranks that share experts run as many batches each, of which some may be empty.
Status GradientPass::for_batches(
    Sequences sequences, std::int64_t batch_tokens, const OnPart& on_part,
    const std::function<Status(Sequences batch, const OnPart& done)>& run) {
  const Mesh& mesh = model_.options().mesh;
  const OnPart done = [&] { return all_go_on(!on_part || on_part(), mesh); };
  std::vector<Sequences> batches = batches_of(sequences, batch_tokens);
  if (mesh.ep->size() > 1) {
    const auto counts = all_of(static_cast<std::int32_t>(batches.size()), *mesh.ep);
    batches.resize(static_cast<std::size_t>(std::ranges::max(counts)), sequences.last(0));
  }
  for (const Sequences batch : batches) GLINT_TRY_STATUS(run(batch, done));
  return Ok{};
}

Result<LossSums> GradientPass::add(Sequences sequences, const LossTerms& terms,
                                   std::int64_t batch_tokens, const OnPart& on_part) {
  const bool mtp = terms.mtp_scale != 0;
  GLINT_TRY_STATUS(prepare(sequences, mtp, batch_tokens));
  LossSums sums = {.tokens = count_targets(sequences, 1),
                   .mtp_tokens = mtp ? count_targets(sequences, 2) : 0};
  GLINT_TRY_STATUS(
      for_batches(sequences, batch_tokens, on_part, [&](Sequences batch, const OnPart& done) {
        const auto first =
            terms.first_sequence + static_cast<std::size_t>(batch.data() - sequences.data());
        return BatchPass(*this, batch, first, terms, done).run(sums);
      }));
  if (!std::isfinite(sums.nll) || !std::isfinite(sums.mtp_nll)) return no_numbers(model_);
  return sums;
}

Result<std::vector<TokenScores>> GradientPass::score(Sequences sequences, float temperature,
                                                     std::int64_t batch_tokens,
                                                     const OnPart& on_part, bool drafts) {
  GLINT_TRY_STATUS(prepare(sequences, drafts, batch_tokens));
  const LossTerms terms = {.temperature = temperature};
  std::vector<TokenScores> scores;
  GLINT_TRY_STATUS(
      for_batches(sequences, batch_tokens, on_part, [&](Sequences batch, const OnPart& done) {
        return BatchPass(*this, batch, scores.size(), terms, done).score(scores, drafts);
      }));
  return scores;
}

}  // namespace glint
