#include "rl/grpo.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/str.h"

namespace glint {
namespace {

std::vector<TrainSequence> sequences_of(const std::vector<const GradedAnswer*>& answers) {
  std::vector<TrainSequence> sequences;
  for (const GradedAnswer* answer : answers) sequences.push_back(answer->tokens);
  return sequences;
}

// The part that belongs to the answer's tokens.
std::vector<float> of_answer(const GradedAnswer& answer, const std::vector<float>& all) {
  return {all.begin() + answer.num_prompt, all.end()};
}

}  // namespace

Grpo::Grpo(GradientSource& pass, const GrpoOptions& options) : pass_(pass), options_(options) {}

Status Grpo::prepare(GrpoBatch& batch, const OnPart& on_part) {
  GLINT_TRY(batch.parity, verify(batch, on_part));
  return set_old_log_probs(batch, on_part);
}

Result<Parity> Grpo::verify(const GrpoBatch& batch, const OnPart& on_part) {
  const std::size_t all = batch.answers.size();
  const std::size_t count = std::min(static_cast<std::size_t>(options_.parity_samples), all);
  std::vector<const GradedAnswer*> some;
  for (std::size_t i = 0; i < count; ++i) {
    some.push_back(
        &batch.answers[(i * all / count + static_cast<std::size_t>(batch.version)) % all]);
  }
  const std::vector<TrainSequence> sequences = sequences_of(some);
  GLINT_TRY(const std::vector<TokenScores> scores,
            answering().score(sequences, {.temperature = options_.temperature},
                              options_.batch_tokens, on_part));
  Parity parity;
  PolicySums weights;
  std::string first;
  for (std::size_t i = 0; i < some.size(); ++i) {
    const std::vector<float> trained = of_answer(*some[i], scores[i].served);
    const std::vector<float> entropies = of_answer(*some[i], scores[i].entropies);
    const std::vector<float>& served = some[i]->served_log_probs;
    GLINT_CHECK(trained.size() == served.size(), "a log-probability for each token of the answer");
    for (auto t = static_cast<std::size_t>(some[i]->num_stale); t < served.size(); ++t) {
      if (!some[i]->teaches(t)) continue;
      ++parity.tokens;
      const double ratio = mismatch_ratio(trained[t], served[t]);
      weights.weight += ratio, weights.weight_squared += ratio * ratio;
      parity.kl += kl_term(KlKind::kLowVar, served[t], trained[t]).value;
      parity.entropy += entropies[t];
      parity.difference += std::fabs(double{trained[t]} - served[t]);
      if (std::bit_cast<std::uint32_t>(trained[t]) == std::bit_cast<std::uint32_t>(served[t])) {
        continue;
      }
      if (parity.differ++ > 0) continue;
      first = str("that of token ", t, " of an answer is ", format_double(double{served[t]}),
                  " in the engine and ", format_double(double{trained[t]}), " in training");
    }
  }
  if (parity.tokens > 0) {
    weights.tokens = static_cast<double>(parity.tokens);
    parity.ess_ratio = weights.ess_ratio();
    for (double* const sum : {&parity.difference, &parity.kl, &parity.entropy}) {
      *sum /= weights.tokens;
    }
  }
  const double gate = options_.parity_gate;
  if (parity.differ == 0 || (gate > 0 && parity.difference <= gate)) return parity;
  return unsupported(gate > 0 ? str("parity: log-probabilities of the engine and of training are ",
                                    format_double(parity.difference), " apart in the mean of ",
                                    parity.tokens, " tokens; the gate is ", format_double(gate))
                              : str("parity: ", parity.differ, " of ", parity.tokens,
                                    " log-probabilities differ: ", first,
                                    "; ratios of probabilities would be wrong"));
}

bool Grpo::learns_as_it_answered() const {
  return options_.steps_of_round == 1 && !options_.answering &&
         options_.loss.policy.mismatch.kind == MismatchOptions::Kind::kNone;
}

Status Grpo::set_old_log_probs(GrpoBatch& batch, const OnPart& on_part) {
  const auto score = [&](GradientSource& pass, bool has_routes) {
    std::vector<TrainSequence> sequences;
    for (const GradedAnswer& answer : batch.answers) {
      TrainSequence& one = sequences.emplace_back();
      one.ids = answer.tokens.ids;
      one.weights = answer.tokens.weights;
      if (has_routes) one.routes = answer.tokens.routes;
    }
    return pass.score(sequences, {.temperature = options_.temperature}, options_.batch_tokens,
                      on_part);
  };
  const bool is_fresh = std::ranges::all_of(
      batch.answers, [](const GradedAnswer& answer) { return answer.num_stale == 0; });
  if (options_.temperature == 1 && options_.parity_gate == 0) {
    if (!is_fresh || !learns_as_it_answered()) {
      for (GradedAnswer& answer : batch.answers) answer.old_log_probs = answer.served_log_probs;
    }
  } else if (!learns_as_it_answered()) {
    GLINT_TRY(const std::vector<TokenScores> scores, score(answering(), true));
    for (std::size_t i = 0; i < scores.size(); ++i) {
      GradedAnswer& answer = batch.answers[i];
      answer.old_log_probs = of_answer(answer, scores[i].log_probs);
      if (options_.loss.policy.mismatch.kind == MismatchOptions::Kind::kNone) continue;
      const std::vector<float> trained = of_answer(answer, scores[i].served);
      for (std::size_t t = 0; t < trained.size(); ++t) {
        answer.mismatches.push_back(mismatch_ratio(trained[t], answer.served_log_probs[t]));
      }
    }
  }
  if (options_.loss.policy.kl_coef == 0) return Ok{};
  GLINT_CHECK(options_.reference, "a KL needs a reference model");
  // It has routes of its own.
  GLINT_TRY(const std::vector<TokenScores> scores, score(*options_.reference, false));
  for (std::size_t i = 0; i < scores.size(); ++i) {
    batch.answers[i].ref_log_probs = of_answer(batch.answers[i], scores[i].log_probs);
  }
  return Ok{};
}

Result<Grpo::Sums> Grpo::add_gradient(const GrpoBatch& batch, int step, const OnPart& on_part) {
  const std::size_t size = batch.answers.size() / static_cast<std::size_t>(options_.steps_of_round);
  const auto part = std::span(batch.answers).subspan(static_cast<std::size_t>(step) * size, size);
  const bool has_more = options_.loss.entropy_coef != 0 || options_.loss.policy.kl_coef != 0 ||
                        options_.mtp_loss != 0;
  const bool needs_advantage = options_.removes_constant_groups || !has_more;
  std::int64_t tokens = 0;
  std::vector<const GradedAnswer*> taught;
  Sums sums;
  for (const GradedAnswer& answer : part) {
    tokens += answer.num_taught();
    if ((needs_advantage && answer.advantage == 0) || answer.num_taught() == 0) continue;
    taught.push_back(&answer);
    sums.tokens += answer.tokens.size();
  }
  sums.answers = static_cast<std::int64_t>(taught.size());
  if (taught.empty()) return sums;
  const std::vector<TrainSequence> sequences = sequences_of(taught);
  std::vector<double> differences;
  if (options_.loss.policy.kind == PolicyLossKind::kGspo && taught[0]->old_log_probs.empty()) {
    differences.resize(taught.size());
  } else if (options_.loss.policy.kind == PolicyLossKind::kGspo) {
    GLINT_TRY(const std::vector<TokenScores> scores,
              pass_.score(sequences, {.temperature = options_.temperature}, options_.batch_tokens,
                          on_part));
    for (std::size_t i = 0; i < taught.size(); ++i) {
      const GradedAnswer& answer = *taught[i];
      differences.push_back(mean_difference(
          answer.taught(std::span<const float>(of_answer(answer, scores[i].log_probs))),
          answer.taught(std::span<const float>(answer.old_log_probs))));
    }
  }
  AnswerLoss loss(options_.loss, taught, static_cast<std::int64_t>(size), tokens,
                  std::move(differences));
  const std::int64_t drafted = options_.mtp_loss != 0 ? count_targets(sequences, 2) : 0;
  const LossTerms terms = {
      .temperature = options_.temperature,
      .mtp_scale = drafted > 0 ? options_.mtp_loss / static_cast<double>(drafted) : 0,
      .mtp_alone = true,
      .loss = &loss};
  GLINT_TRY(const LossSums plain, pass_.add(sequences, terms, options_.batch_tokens, on_part));
  sums.mtp_nll = plain.mtp_nll, sums.mtp_tokens = plain.mtp_tokens;
  sums.policy = loss.sums();
  sums.entropy = loss.entropy();
  return sums;
}

}  // namespace glint
