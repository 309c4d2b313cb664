#include "train/loss_head.h"

#include <algorithm>
#include <numeric>

#include "model/divided_ops.h"

namespace glint {

std::vector<LossHead::Chunk> LossHead::chunks(std::int64_t rows) const {
  constexpr std::int64_t kLogitBytes = std::int64_t{64} << 20;
  const std::int64_t most = std::max<std::int64_t>(kLogitBytes / (m_.config.vocab_size * 4), 1);
  std::vector<Chunk> all;
  for (std::int64_t r = 0; r < rows; r += most) all.push_back({r, std::min(most, rows - r)});
  return all;
}

LossHead::Logits LossHead::logits_of(const Tensor& predicting, const Chunk& rows) {
  const Weight& head = m_.weights.lm_head;
  const LinearArgs product = {.x = predicting.slice(0, rows.first, rows.count),
                              .weight = head,
                              .out = context_.arena.take(DType::kF32, {rows.count, head.rows})};
  m_.ops.linear(product);
  return {product, gather_logits(m_, product.out, context_.arena)};
}

LossHead::Scores LossHead::scores_of(const Tensor& logits, const Tensor& targets,
                                     float temperature) {
  const std::int64_t R = targets.dim(0);
  const LogProbsArgs args = {.logits = logits,
                             .targets = targets,
                             .temperature = temperature,
                             .log_probs = context_.arena.take(DType::kF32, {R}),
                             .entropies = context_.arena.take(DType::kF32, {R})};
  context_.gradients().log_probs(args);
  return {.log_probs = download<float>(args.log_probs, context_.device()),
          .entropies = download<float>(args.entropies, context_.device())};
}

std::vector<float> LossHead::served_of(const Tensor& logits, const Tensor& targets) {
  const std::int64_t R = targets.dim(0);
  std::vector<std::int32_t> all(static_cast<std::size_t>(R));
  std::iota(all.begin(), all.end(), 0);
  const auto take = [&](DType dtype, std::int64_t columns) {
    return context_.arena.take(dtype, {R, columns});
  };
  const Tensor log_probs = context_.arena.take(DType::kF32, {R});
  m_.ops.token_log_probs({.logits = logits,
                          .rows = upload(all, {R}, context_.arena),
                          .ids = targets,
                          .num_ids = m_.config.vocab_size,
                          .log_probs = log_probs,
                          .ranks = context_.arena.take(DType::kI32, {R}),
                          .top_ids = take(DType::kI32, 0),
                          .top_log_probs = take(DType::kF32, 0)});
  return download<float>(log_probs, context_.device());
}

LossHead::Scores LossHead::score(const Tensor& hidden, const LossRows& tokens, float temperature,
                                 bool served) {
  const Tensor ids = upload(tokens.ids, {tokens.size()}, context_.arena);
  const Tensor predicting = context_.gathered(hidden, tokens.rows);
  Scores all;
  for (const Chunk& rows : chunks(tokens.size())) {
    const Arena::Scope scope(context_.arena);
    const Tensor logits = logits_of(predicting, rows).all;
    const Tensor targets = ids.slice(0, rows.first, rows.count);
    Scores some = scores_of(logits, targets, temperature);
    if (served) some.served = served_of(logits, targets);
    for (const auto values : {&Scores::log_probs, &Scores::entropies, &Scores::served}) {
      (all.*values).insert((all.*values).end(), (some.*values).begin(), (some.*values).end());
    }
  }
  return all;
}

LossHead::Scores LossHead::weigh(const LossTerms& terms, const Scores& scores,
                                 std::span<const LossRows::Place> places) {
  Scores scales;
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
    terms.loss->weigh(terms.first_sequence + first.sequence, first.token, part(scores.log_probs),
                      part(scores.entropies), part(scales.log_probs), part(scales.entropies));
  }
  for (auto* derivatives : {&scales.log_probs, &scales.entropies}) {
    for (float& x : *derivatives) x = -x;
  }
  return scales;
}

double LossHead::add(const Tensor& hidden, const LossRows& tokens, const LossTerms& terms,
                     const std::function<void(const Tensor&)>& on_logits) {
  if (tokens.size() == 0) return 0;
  Arena& arena = context_.arena;
  Tensor predicting;
  context_.record([&] { predicting = context_.gathered(hidden, tokens.rows); });
  const Tensor dhidden = context_.shadow.add_to(predicting);
  const Tensor ids = upload(tokens.ids, {tokens.size()}, context_.arena);
  double sum = 0;
  for (const Chunk& rows : chunks(tokens.size())) {
    const Arena::Mark begin = arena.mark();
    const auto [product, logits] = logits_of(predicting, rows);
    if (on_logits) on_logits(logits);
    const auto first = static_cast<std::size_t>(rows.first);
    const auto count = static_cast<std::size_t>(rows.count);
    const auto weights = std::span(tokens.weights).subspan(first, count);
    CrossEntropyArgs args = {.logits = logits,
                             .targets = ids.slice(0, rows.first, rows.count),
                             .temperature = terms.temperature,
                             .log_probs = arena.take(DType::kF32, {rows.count})};
    if (terms.loss) {
      const Scores scales = weigh(terms, scores_of(logits, args.targets, terms.temperature),
                                  std::span(tokens.places).subspan(first, count));
      args.scales = upload(scales.log_probs, {rows.count}, arena);
      args.entropy_scales = upload(scales.entropies, {rows.count}, arena);
      for (const Tensor& one : {args.scales, args.entropy_scales}) m_.mesh.tp->broadcast(one, 0);
    } else {
      std::vector<float> scales;
      for (const float weight : weights) scales.push_back(static_cast<float>(terms.scale * weight));
      args.scales = upload(scales, {rows.count}, arena);
    }
    context_.gradients().cross_entropy(args);
    if (m_.mesh.tp->size() > 1) own_logits(m_, logits, product.out);
    context_.gradients().linear_back({.op = product,
                                      .dout = product.out,
                                      .dx = dhidden.slice(0, rows.first, rows.count),
                                      .dweight = context_.tape.gradient_of(m_.weights.lm_head)});
    const std::vector<float> log_probs = download<float>(args.log_probs, context_.device());
    for (std::size_t r = 0; r < count; ++r) sum -= weights[r] * log_probs[r];
    arena.go_to(begin);  // nothing that is recorded needs it
  }
  return sum;
}

}  // namespace glint
