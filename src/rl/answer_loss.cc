#include "rl/answer_loss.h"

#include <algorithm>

#include "base/bytes.h"

namespace glint {

std::int64_t GradedAnswer::num_taught() const {
  std::int64_t count = 0;
  for (std::size_t t = 0; t < static_cast<std::size_t>(num_answer()); ++t) count += teaches(t);
  return count;
}

AnswerLoss::AnswerLoss(const Options& options, std::span<const GradedAnswer* const> answers,
                       std::int64_t batch_answers, std::int64_t batch_tokens,
                       std::vector<double> differences)
    : options_(options),
      answers_(answers),
      batch_answers_(batch_answers),
      batch_tokens_(batch_tokens),
      differences_(std::move(differences)) {
  GLINT_CHECK(options.policy.kind != PolicyLossKind::kGspo || differences_.size() == answers.size(),
              "GSPO needs each answer's mean difference");
}

void AnswerLoss::weigh(std::size_t sequence, std::int64_t first, std::span<const float> log_probs,
                       std::span<const float> entropies, std::span<float> d_log_probs,
                       std::span<float> d_entropies) {
  const GradedAnswer& answer = *answers_[sequence];
  // Tokens of the prompt teach nothing.
  const auto skip =
      std::min(static_cast<std::size_t>(std::max<std::int64_t>(answer.num_prompt - first, 0)),
               log_probs.size());
  const std::size_t count = log_probs.size() - skip;
  if (count == 0) return;
  const auto at = static_cast<std::size_t>(std::max<std::int64_t>(first - answer.num_prompt, 0));
  const auto piece = [&](const auto& all) {
    using Value = typename std::decay_t<decltype(all)>::value_type;
    return all.empty() ? std::span<const Value>() : std::span<const Value>(all).subspan(at, count);
  };
  const double scale =
      loss_scale(options_.per_token, static_cast<double>(answer.num_taught()),
                 static_cast<double>(batch_answers_), static_cast<double>(batch_tokens_));
  const std::vector<double> ratios = answer.taught(std::span<const double>(answer.mismatches));
  double mean_weight = ratios.empty() ? 1 : 0;
  for (const double ratio : ratios) {
    mean_weight +=
        mismatch_weight(options_.policy.mismatch, ratio) / static_cast<double>(ratios.size());
  }
  PolicySums sums =
      policy_loss(options_.policy,
                  {.new_log_probs = log_probs.subspan(skip),
                   .old_log_probs = piece(answer.old_log_probs),
                   .ref_log_probs = piece(answer.ref_log_probs),
                   .mismatches = piece(answer.mismatches),
                   .advantage = answer.advantage,
                   .answer_difference = differences_.empty() ? 0 : differences_[sequence],
                   .answer_weight = mean_weight},
                  scale, d_log_probs.subspan(skip));
  Seen seen;
  for (std::size_t t = skip; t < log_probs.size(); ++t) {
    seen.entropy += entropies[t];
    sums.loss -= scale * options_.entropy_coef * entropies[t];
    d_entropies[t] = static_cast<float>(-scale * options_.entropy_coef);
  }
  seen.sums = sums;
  const std::lock_guard lock(mutex_);
  seen_[{sequence, first}] = seen;
}

std::string AnswerLoss::tell_seen() const {
  ByteWriter write;
  for (const auto& [place, seen] : seen_) write(place.first, place.second, seen);
  return write.take();
}

void AnswerLoss::take_seen(std::string_view bytes) {
  ByteReader read(bytes);
  while (read.has_more()) {
    Place place;
    Seen seen;
    read(place.first, place.second, seen);
    seen_[place] = seen;
  }
  GLINT_CHECK(read.is_whole(), "what another rank has seen is cut short");
}

PolicySums AnswerLoss::sums() const {
  PolicySums all;
  for (const auto& [place, one] : seen_) all.add(one.sums);
  return all;
}

double AnswerLoss::entropy() const {
  double all = 0;
  for (const auto& [place, one] : seen_) all += one.entropy;
  return all;
}

}  // namespace glint
