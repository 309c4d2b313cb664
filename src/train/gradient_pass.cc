#include "train/gradient_pass.h"

#include <algorithm>
#include <cmath>
#include <deque>
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
  for (Comm* const group : {mesh.tp, mesh.cp, mesh.ep}) {
    if (group->size() == 1) continue;
    const auto all = all_of(own, *group);
    own = std::ranges::find(all, 0) == all.end();
  }
  return own;
}

// The same of the stages too. Not while they work on batches, each on another one.
bool all_agree(bool own, const Mesh& mesh) {
  own = all_go_on(own, mesh);
  if (mesh.pp->size() == 1) return own;
  const auto all = all_of(own, *mesh.pp);
  return std::ranges::find(all, 0) == all.end();
}

// This rank's rows of a batch, which know how many the ranks have that share the sequences, or the
// experts, with it.
PackedRows own_rows(PackedRows packed, const Model& m) {
  const Comm& cp = *m.mesh.cp;
  if (cp.size() > 1) packed = part_of(packed, cp.rank(), cp.size());
  if (m.mesh.ep->size() == 1) return packed;
  const auto all = all_of(static_cast<std::int32_t>(packed.size()), *m.mesh.ep);
  // The ranks of a shard have the same rows.
  packed.rows.all_tokens =
      std::accumulate(all.begin(), all.end(), std::int64_t{0}) / m.mesh.tp->size();
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

// One batch on this stage: its sequences, and what a pass over them chose and keeps in `saved`
// until it is gone. Memory of the work itself is there from begin() to the end of the forward pass,
// and again in the backward pass: other batches may come between.
class GradientPass::BatchPass {
 public:
  // `first`: the number of the first sequence among all of the call.
  BatchPass(GradientPass& all, Sequences sequences, std::size_t first, const LossTerms& terms,
            const OnPart& done, Arena& saved)
      : all_(all),
        m_(all.model_.model()),
        sequences_(sequences),
        first_(first),
        terms_(terms),
        done_(done),
        saved_(saved),
        saved_scope_(saved),
        packed_(own_rows(pack(sequences, m_.mesh.cp->size() == 1), m_)),
        T_(packed_.size()) {}

  // Takes what enters the first layer of this stage.
  void begin() {
    work_.emplace(all_, m_, packed_);
    m_.shard.is_first() ? pass().embed(work_->batch.token_ids)
                        : pass().receive(m_.shard.stage - 1, {});
  }

  // Runs the layers, and hands on to the next stage. It `keeps` what a backward pass needs.
  Status forward(bool keeps) {
    const bool given = std::any_of(sequences_.begin(), sequences_.end(),
                                   [](const TrainSequence& s) { return !s.routes.empty(); });
    int moe_layer = m_.config.num_moe_layers_before(m_.shard.layers.begin);
    const KeyCopies copies(all_.tape_, packed_);
    for (int i = m_.shard.layers.begin; i < m_.shard.layers.end; ++i) {
      if (keeps) inputs_.push_back(keep(pass().residual()));
      Tensor routed;
      if (!m_.config.layers[static_cast<std::size_t>(i)].is_dense()) {
        routed = saved_.take(DType::kI32, {T_, m_.config.num_experts_per_tok});
        if (given) {
          const auto routes = routes_of(sequences_, packed_, moe_layer, m_.config);
          device().copy_in(routed.data, routes.data(), routes.size() * 4);
        }
        ++moe_layer;
      }
      routed_.push_back(routed);
      pass().layer(i, {.routed = routed, .routed_given = given && routed});
      // A layer without an indexer attends to what the one before selected.
      const bool selects = static_cast<bool>(m_.weights.layers[i].attention.indexer);
      if (keeps) {
        selected_.push_back(selects || selected_.empty() ? keep(pass().selected)
                                                         : selected_.back());
      }
      if (!done_()) return interrupted();
    }
    pass().residual();
    if (m_.shard.is_last()) return Ok{};
    pass().send(m_.shard.stage + 1, {});
    work_.reset();
    return m_.shard.is_first() || done_() ? Status(Ok{}) : interrupted();
  }

  // Adds to the parameters' gradients and, on the last stage, to `sums`.
  Status backward(LossSums& sums) {
    if (m_.shard.is_last()) {
      head(sums);
      if (!done_()) return interrupted();
    } else {
      work_.emplace(all_, m_, packed_);
      m_.mesh.pp->recv(all_.shadow_.of(residual()), m_.shard.stage + 1);
    }
    GLINT_TRY_STATUS(layers_back());
    m_.shard.is_first() ? embed_back() : keep_gradient();
    expect_no_remains({}, "the input of a stage");
    work_.reset();
    return done_() ? Status(Ok{}) : interrupted();
  }

  // To the stage before, after backward().
  void send_gradient() { m_.mesh.pp->send(gradient_, m_.shard.stage - 1); }

  // Adds one result a sequence, on the last stage.
  Status score(std::vector<TokenScores>& scores, bool drafts) {
    begin();
    GLINT_TRY_STATUS(forward(false));
    if (!m_.shard.is_last()) return Ok{};
    const Tensor hidden = all_.arena_.take(m_.activations, {T_, m_.config.hidden_size});
    pass().head(m_.weights.norm, {}, hidden, {});
    for (const TrainSequence& sequence : sequences_) {
      TokenScores& one = scores.emplace_back();
      for (auto* values : {&one.log_probs, &one.entropies, &one.served}) {
        values->resize(sequence.ids.size());
      }
    }
    const std::span<TokenScores> mine = std::span(scores).last(sequences_.size());
    const LossRows loss = loss_rows(sequences_, packed_, 1);
    const Tensor ids = upload(loss.ids, {loss.size()}, saved_);
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
  // The memory of a pass.
  struct Work {
    Work(GradientPass& all, const Model& m, const PackedRows& packed)
        : scope(all.arena_),
          batch(build_batch(packed.rows, all.model_.rotary_table(), {}, all.model_.ops(),
                            all.arena_)),
          pass(m, batch.view, packed.size(), all.arena_) {}

    Arena::Scope scope;
    Batch batch;
    Pass pass;
  };
  Pass& pass() { return work_->pass; }

  // The final norm, the losses and the draft layer, and back to the gradient of the residual.
  void head(LossSums& sums) {
    const Arena::Retain retain(all_.arena_);
    const std::int64_t D = m_.config.hidden_size;
    const Tensor hidden = all_.arena_.take(m_.activations, {T_, D});
    record([&] { pass().head(m_.weights.norm, {}, hidden, {}); });
    sums.nll +=
        loss(hidden, loss_rows(sequences_, packed_, 1), terms_.scale, terms_.loss, all_.on_logits);
    if (terms_.mtp_scale != 0) {
      const PackedRows draft = own_rows(pack_for_draft(sequences_), m_);
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
    for (const auto& one : packed_.row_of) {
      std::ranges::copy_if(one, std::back_inserter(rows),
                           [](std::int32_t row) { return row >= 0; });
    }
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
    const PackedRows draft = own_rows(pack_for_draft(sequences_), m_);
    const MtpArgs args = run_drafts(hidden, draft, [](const auto& run) { run(); });
    const LossRows loss = loss_rows(sequences_, draft, 2);
    const Tensor ids = upload(loss.ids, {loss.size()}, saved_);
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

  Status layers_back() {
    const KeyCopies copies(all_.tape_, packed_);
    for (int i = m_.shard.layers.end - 1; i >= m_.shard.layers.begin; --i) {
      const Arena::Retain retain(all_.arena_);
      const auto at = static_cast<std::size_t>(i - m_.shard.layers.begin);
      copy(residual(), inputs_[at], device());
      copy(pass().selected, selected_[at], device());
      record([&] {
        pass().layer(i, {.routed = routed_[at],
                         .routed_given = static_cast<bool>(routed_[at]),
                         .selection_given = true});
        pass().residual();
      });
      all_.shadow_.set_live(residual());
      all_.tape_.backward();
      expect_no_remains(residual(), "a layer");
      if (!done_()) return interrupted();
    }
    return Ok{};
  }

  // That of what entered, for the stage before.
  void keep_gradient() {
    const Tensor dout = all_.shadow_.of(residual());
    gradient_ = keep(dout);
    fill_zero(device(), dout.data, dout.bytes().size());
  }

  // Where the vocabulary is divided, each rank has the whole gradient of its tokens' rows.
  void embed_back() {
    const Tensor dout = all_.shadow_.of(residual());
    Tensor ids = work_->batch.token_ids;
    if (Comm& tp = *m_.mesh.tp; tp.size() > 1) {
      tp.all_reduce(dout, dout);
      const auto here = static_cast<std::int32_t>(m_.weights.embed_tokens.dim(0));
      std::vector<std::int32_t> own = packed_.rows.tokens;
      for (std::int32_t& id : own) id = id / here == tp.rank() ? id % here : -1;
      ids = upload(own, {T_}, saved_);
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
    const Tensor ids = upload(tokens.ids, {tokens.size()}, saved_);
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
                             .dweight = all_.tape_.gradient_of(m_.weights.lm_head)});
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
    const Tensor kept = saved_.take(x.dtype, {x.dim(0), x.dim(1)});
    copy(kept, x, device());
    return kept;
  }
  const Tensor& residual() const { return work_->pass.stream.x; }
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
  Arena& saved_;
  const Arena::Scope saved_scope_;
  const PackedRows packed_;
  const std::int64_t T_;
  std::optional<Work> work_;
  Tensor gradient_;               // of what entered: [T, hidden] f32
  std::vector<Tensor> inputs_;    // of each layer: [T, hidden] f32
  std::vector<Tensor> routed_;    // [T, k] i32, empty of dense layers
  std::vector<Tensor> selected_;  // [T, index_topk] i32
};

// A stage's part in the batches of a call: one forward, one backward (1F1B). As many batches as
// there are stages behind go ahead; then each one more waits until the oldest has come back, so
// that what is saved of them does not grow with their number.
//
// To the right a stage sends before it receives, to the left it receives before it sends: so two
// that meet always do the same of what one wants to send and the other to receive. The first
// decides before each batch whether all go on, and tells with it: what was begun is finished.
class GradientPass::Stage {
 public:
  using Make = std::function<std::unique_ptr<BatchPass>(std::size_t batch, Arena& saved)>;
  Stage(GradientPass& all, std::size_t batches, const OnPart& on_part, Make make)
      : all_(all), batches_(batches), on_part_(on_part), make_(std::move(make)) {}

  Status run(LossSums& sums) {
    const ShardPlan& shard = all_.model_.shard();
    const auto behind = static_cast<std::size_t>(shard.shape.pp - shard.stage - 1);
    begin();
    for (std::size_t i = 0; i < std::min(batches_, behind); ++i) {
      GLINT_TRY_STATUS(finish());
      begin();
    }
    for (;;) {
      GLINT_TRY_STATUS(finish());
      if (begun_.empty()) break;
      const std::unique_ptr<BatchPass> oldest = std::move(begun_.front());
      begun_.pop_front();
      GLINT_TRY_STATUS(oldest->backward(sums));
      begin();
      if (!shard.is_first()) oldest->send_gradient();
    }
    return all_.goes_on_ ? Status(Ok{}) : interrupted();
  }

 private:
  // The next batch, from the stage before: it comes, or nothing does any more.
  void begin() {
    if (count_ == batches_ || !all_.goes_on_) return;
    is_told_ = false;
    all_.hear(on_part_);
    if (!all_.goes_on_) return;
    // One more than go ahead, as the oldest is sent back when the next is there.
    next_ =
        make_(count_, all_.saved(count_ % (static_cast<std::size_t>(all_.model_.shard().shape.pp -
                                                                    all_.model_.shard().stage) +
                                           1)));
    ++count_;
    next_->begin();
  }
  Status finish() {
    if (!std::exchange(is_told_, true)) all_.tell();
    if (!next_) return Ok{};
    GLINT_TRY_STATUS(next_->forward(true));
    begun_.push_back(std::move(next_));
    return Ok{};
  }

  GradientPass& all_;
  const std::size_t batches_;
  const OnPart& on_part_;
  const Make make_;
  std::size_t count_ = 0;  // batches that have come
  bool is_told_ = true;    // whether the next stage knows of the last that was heard of
  std::unique_ptr<BatchPass> next_;
  std::deque<std::unique_ptr<BatchPass>> begun_;
};

GradientPass::GradientPass(LoadedModel& model, TapeOps& tape)
    : model_(model), tape_(tape), arena_(tape.device()), scratch_(tape.device()), shadow_(arena_) {
  const ShardPlan& shard = model.shard();
  GLINT_CHECK(&model.ops() == &tape || shard.is_divided() || shard.shape.cp > 1,
              "the model runs on other ops");
}

int GradientPass::num_batches(Sequences sequences, std::int64_t batch_tokens) const {
  return static_cast<int>(batches_of(sequences, batch_tokens).size());
}

Arena& GradientPass::saved(std::size_t i) {
  while (saved_.size() <= i) saved_.push_back(std::make_unique<Arena>(tape_.device()));
  return *saved_[i];
}

void GradientPass::hear(const OnPart& on_part) {
  const Mesh& mesh = model_.options().mesh;
  const int stage = model_.shard().stage;
  if (stage == 0) {
    goes_on_ = all_go_on(!on_part || on_part(), mesh);
    return;
  }
  std::int32_t flag = 0;
  mesh.pp->recv(Tensor(reinterpret_cast<std::byte*>(&flag), DType::kI32, {1}), stage - 1);
  goes_on_ = flag != 0;
}

void GradientPass::tell() {
  if (model_.shard().is_last()) return;
  std::int32_t flag = goes_on_;
  model_.options().mesh.pp->send(Tensor(reinterpret_cast<std::byte*>(&flag), DType::kI32, {1}),
                                 model_.shard().stage + 1);
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
  return Error{ErrorCode::kUnavailable, "another rank has no room for its caches"};
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
    const auto first =
        terms.first_sequence + static_cast<std::size_t>(all[i].data() - sequences.data());
    return std::make_unique<BatchPass>(*this, all[i], first, terms, done, saved);
  };
  goes_on_ = true;
  if (model_.shard().shape.pp > 1) {
    GLINT_TRY_STATUS(Stage(*this, all.size(), on_part, make).run(sums));
  } else {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::unique_ptr<BatchPass> batch = make(i, saved(0));
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
  goes_on_ = true;
  for (const Sequences batch : batches(sequences, batch_tokens)) {
    if (model_.shard().shape.pp > 1) {
      hear(on_part);
      tell();
      if (!goes_on_) return interrupted();
    }
    GLINT_TRY_STATUS(
        BatchPass(*this, batch, scores.size(), terms, done, saved(0)).score(scores, drafts));
  }
  return scores;
}

}  // namespace glint
