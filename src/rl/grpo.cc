#include "rl/grpo.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "base/random.h"
#include "base/str.h"
#include "rl/advantage.h"

namespace glint {
namespace {

// Streams of seeds: training and evaluation never draw the same.
constexpr std::uint64_t kTrainStream = 1, kEvalStream = 2;

constexpr std::size_t kEvalSamples = 4;  // prompts whose answers are shown

std::uint64_t seed_of(std::uint64_t seed, std::uint64_t stream, std::uint64_t prompt, int sample) {
  const auto bits = philox(seed, stream << 32 | static_cast<std::uint32_t>(sample), prompt);
  return std::uint64_t{bits[0]} << 32 | bits[1];
}

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

double GrpoBatch::mean_reward() const {
  return std::accumulate(rewards.begin(), rewards.end(), 0.0) / static_cast<double>(rewards.size());
}

double GrpoBatch::mean_length() const {
  return static_cast<double>(answer_tokens) / static_cast<double>(rewards.size());
}

Grpo::Grpo(LoadedModel& model, GradientPass& pass, const Tokenizer& tokenizer, const Reward* reward,
           const GrpoOptions& options)
    : model_(model), pass_(pass), tokenizer_(tokenizer), reward_(reward), options_(options) {}

// Without the stop token.
std::string Grpo::text_of(const Rollout& rollout) const {
  const bool stopped = !rollout.truncated && !rollout.answer.empty();
  return tokenizer_.decode(std::span(rollout.answer).first(rollout.answer.size() - stopped));
}

AnswerSample Grpo::sample_of(const TrainPrompt& prompt, const Rollout& rollout,
                             double reward) const {
  return {.line = prompt.line,
          .prompt = tokenizer_.decode(prompt.ids),
          .label = prompt.label,
          .answer = text_of(rollout),
          .reward = reward,
          .truncated = rollout.truncated};
}

Result<std::vector<double>> Grpo::grade(const std::vector<const TrainPrompt*>& rows,
                                        const std::vector<Rollout>& rollouts) const {
  std::vector<double> rewards(rollouts.size());
  std::vector<AnswerToGrade> elsewhere;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < rollouts.size(); ++i) {
    const TrainPrompt& row = *rows[i];
    const std::string text = text_of(rollouts[i]);
    if (row.rm_type.empty() && options_.remote) {
      elsewhere.push_back({tokenizer_.decode(row.ids), text, row.label});
      places.push_back(i);
    } else if (row.rm_type.empty()) {
      rewards[i] = reward_->grade(text, row.label).reward;
    } else {
      GLINT_TRY(const Reward own, Reward::named(row.rm_type));
      rewards[i] = own.grade(text, row.label).reward;
    }
  }
  if (elsewhere.empty()) return rewards;
  GLINT_TRY(const std::vector<double> found, options_.remote(elsewhere));
  GLINT_CHECK(found.size() == places.size(), "a reward for each answer");
  for (std::size_t i = 0; i < found.size(); ++i) rewards[places[i]] = found[i];
  return rewards;
}

Result<GrpoBatch> Grpo::roll_out(const std::vector<TrainPrompt>& prompts, RowOrder& order,
                                 std::uint64_t position, const OnTokens& on_tokens) {
  GrpoBatch batch;
  const int n = options_.n_samples_per_prompt;
  const auto wanted = static_cast<std::size_t>(options_.rollout_batch_size * n);
  const int rounds = std::max(options_.dynamic_sampling_rounds, 1);
  for (int round = 0; round < rounds && batch.answers.size() < wanted; ++round) {
    std::vector<const TrainPrompt*> rows;
    std::vector<RolloutPrompt> asked;
    for (int i = 0; i < options_.rollout_batch_size; ++i) {
      const std::uint64_t at = position + batch.prompts_used++;
      rows.push_back(&prompts[order.row_at(at)]);
      for (int k = 0; k < n; ++k) {
        asked.push_back(
            {.ids = &rows.back()->ids, .seed = seed_of(options_.seed, kTrainStream, at, k)});
      }
    }
    GLINT_TRY(std::vector<Rollout> rollouts,
              run_rollouts(model_, asked, options_.rollout, on_tokens));
    std::vector<const TrainPrompt*> row_of;
    for (const TrainPrompt* row : rows)
      row_of.insert(row_of.end(), static_cast<std::size_t>(n), row);
    GLINT_TRY(const std::vector<double> grades, grade(row_of, rollouts));
    for (std::size_t row = 0; row < rows.size(); ++row) {
      std::vector<GradedAnswer> group;
      std::vector<double> rewards;
      for (int k = 0; k < n; ++k) {
        const std::size_t at = row * static_cast<std::size_t>(n) + static_cast<std::size_t>(k);
        Rollout& rollout = rollouts[at];
        const double reward = grades[at];
        const auto length = static_cast<std::int64_t>(rollout.answer.size());
        GradedAnswer answer = {
            .tokens = {.ids = rows[row]->ids, .routes = std::move(rollout.routes)},
            .num_prompt = static_cast<std::int64_t>(rows[row]->ids.size()),
            .served_log_probs = std::move(rollout.log_probs),
            .reward = reward,
            .truncated = rollout.truncated};
        std::vector<TokenId>& ids = answer.tokens.ids;
        ids.insert(ids.end(), rollout.answer.begin(), rollout.answer.end());
        answer.tokens.weights.assign(ids.size(), 1);
        std::fill_n(answer.tokens.weights.begin(), answer.num_prompt, 0.0f);
        batch.rewards.push_back(reward);
        batch.answer_tokens += length;
        batch.longest_answer = std::max(batch.longest_answer, length);
        batch.truncated += rollout.truncated;
        batch.prompt_tokens += answer.num_prompt;
        batch.cached_tokens += rollout.cached_tokens;
        batch.drafted_tokens += rollout.drafted;
        batch.accepted_drafts += rollout.accepted;
        rewards.push_back(reward);
        if (options_.overlong_margin > 0) {
          rewards.back() += overlong_penalty(static_cast<int>(length), options_.rollout.max_tokens,
                                             options_.overlong_margin, options_.overlong_penalty);
        }
        group.push_back(std::move(answer));
      }
      const bool differ = rewards_differ(rewards);
      if (differ && batch.samples.empty()) {
        const auto [worst, best] = std::minmax_element(rewards.begin(), rewards.end());
        for (const auto one : {best, worst}) {
          const auto k = static_cast<std::size_t>(one - rewards.begin());
          batch.samples.push_back(sample_of(
              *rows[row], rollouts[row * static_cast<std::size_t>(n) + k], group[k].reward));
        }
      }
      ++batch.groups;
      batch.groups_at_highest += !differ && rewards[0] > 0;
      batch.groups_at_lowest += !differ && rewards[0] <= 0;
      const bool filtered = options_.dynamic_sampling_rounds > 0 && !differ;
      if (filtered || batch.answers.size() >= wanted) continue;
      const std::vector<double> advantages = group_advantages(rewards, options_.std_normalization);
      for (std::size_t k = 0; k < group.size(); ++k) {
        group[k].advantage = advantages[k];
        batch.answers.push_back(std::move(group[k]));
      }
    }
  }
  if (batch.answers.size() < wanted) {
    return invalid(str("after ", batch.groups, " prompts only ",
                       batch.answers.size() / static_cast<std::size_t>(n), " of ",
                       options_.rollout_batch_size,
                       " groups have answers of different rewards; give easier or harder prompts, "
                       "more answers to each (--n-samples-per-prompt), or leave dynamic sampling "
                       "out"));
  }
  return batch;
}

Result<Parity> Grpo::verify(const GrpoBatch& batch, std::uint64_t round,
                            const GradientPass::OnPart& on_part) {
  const std::size_t all = batch.answers.size();
  const std::size_t count = std::min(static_cast<std::size_t>(options_.parity_samples), all);
  std::vector<const GradedAnswer*> some;
  for (std::size_t i = 0; i < count; ++i) {
    some.push_back(&batch.answers[(i * all / count + round) % all]);
  }
  const std::vector<TrainSequence> sequences = sequences_of(some);
  GLINT_TRY(const std::vector<TokenScores> scores,
            pass_.score(sequences, static_cast<float>(options_.rollout.temperature),
                        options_.batch_tokens, on_part));
  Parity parity;
  std::string first;
  for (std::size_t i = 0; i < some.size(); ++i) {
    const std::vector<float> trained = of_answer(*some[i], scores[i].served);
    const std::vector<float>& served = some[i]->served_log_probs;
    GLINT_CHECK(trained.size() == served.size(), "a log-probability for each token of the answer");
    for (std::size_t t = 0; t < served.size(); ++t) {
      ++parity.tokens;
      parity.difference += std::fabs(double{trained[t]} - served[t]);
      if (std::bit_cast<std::uint32_t>(trained[t]) == std::bit_cast<std::uint32_t>(served[t])) {
        continue;
      }
      if (parity.differ++ > 0) continue;
      first = str("that of token ", t, " of an answer is ", format_double(double{served[t]}),
                  " in the engine and ", format_double(double{trained[t]}), " in training");
    }
  }
  parity.difference /= static_cast<double>(parity.tokens);
  const double gate = options_.parity_gate;
  if (parity.differ == 0 || (gate > 0 && parity.difference <= gate)) return parity;
  return Error{ErrorCode::kUnsupported,
               gate > 0 ? str("parity: log-probabilities of the engine and of training are ",
                              format_double(parity.difference), " apart in the mean of ",
                              parity.tokens, " tokens; the gate is ", format_double(gate))
                        : str("parity: ", parity.differ, " of ", parity.tokens,
                              " log-probabilities differ: ", first,
                              "; ratios of probabilities would be wrong")};
}

Status Grpo::set_old_log_probs(GrpoBatch& batch, const GradientPass::OnPart& on_part) {
  std::vector<TrainSequence> sequences;
  for (const GradedAnswer& answer : batch.answers) sequences.push_back(answer.tokens);
  const auto temperature = static_cast<float>(options_.rollout.temperature);
  const auto score = [&](GradientPass& pass) {
    return pass.score(sequences, temperature, options_.batch_tokens, on_part);
  };
  if (temperature == 1 && options_.parity_gate == 0) {
    for (GradedAnswer& answer : batch.answers) answer.old_log_probs = answer.served_log_probs;
  } else {
    GLINT_TRY(const std::vector<TokenScores> scores, score(pass_));
    for (std::size_t i = 0; i < scores.size(); ++i) {
      GradedAnswer& answer = batch.answers[i];
      answer.old_log_probs = of_answer(answer, scores[i].log_probs);
      if (options_.mismatch.kind == MismatchOptions::Kind::kNone) continue;
      const std::vector<float> trained = of_answer(answer, scores[i].served);
      for (std::size_t t = 0; t < trained.size(); ++t) {
        answer.weights.push_back(
            mismatch_weight(options_.mismatch, trained[t], answer.served_log_probs[t]));
      }
    }
  }
  if (options_.loss.policy.kl_coef == 0) return Ok{};
  GLINT_CHECK(options_.reference, "a KL needs a reference model");
  for (TrainSequence& sequence : sequences) sequence.routes.clear();  // it has its own
  GLINT_TRY(const std::vector<TokenScores> scores, score(*options_.reference));
  for (std::size_t i = 0; i < scores.size(); ++i) {
    batch.answers[i].ref_log_probs = of_answer(batch.answers[i], scores[i].log_probs);
  }
  return Ok{};
}

int Grpo::steps_of_round() const {
  const int answers = options_.rollout_batch_size * options_.n_samples_per_prompt;
  return options_.global_batch_size > 0 ? answers / options_.global_batch_size : 1;
}

Result<Grpo::Sums> Grpo::add_gradient(const GrpoBatch& batch, int step,
                                      const GradientPass::OnPart& on_part) {
  const std::size_t size = batch.answers.size() / static_cast<std::size_t>(steps_of_round());
  const auto part = std::span(batch.answers).subspan(static_cast<std::size_t>(step) * size, size);
  std::int64_t tokens = 0;
  std::vector<const GradedAnswer*> taught;
  Sums sums;
  for (const GradedAnswer& answer : part) {
    tokens += answer.num_answer();
    const bool has_more = options_.loss.entropy_coef != 0 || options_.loss.policy.kl_coef != 0;
    if (answer.advantage == 0 && !has_more) continue;
    taught.push_back(&answer);
    sums.tokens += answer.tokens.size();
  }
  sums.answers = static_cast<std::int64_t>(taught.size());
  if (taught.empty()) return sums;
  const std::vector<TrainSequence> sequences = sequences_of(taught);
  const auto temperature = static_cast<float>(options_.rollout.temperature);
  std::vector<double> differences;
  if (options_.loss.policy.kind == PolicyLossKind::kGspo) {
    GLINT_TRY(const std::vector<TokenScores> scores,
              pass_.score(sequences, temperature, options_.batch_tokens, on_part));
    for (std::size_t i = 0; i < taught.size(); ++i) {
      differences.push_back(
          mean_difference(of_answer(*taught[i], scores[i].log_probs), taught[i]->old_log_probs));
    }
  }
  AnswerLoss loss(options_.loss, taught, static_cast<std::int64_t>(size), tokens,
                  std::move(differences));
  GLINT_TRY_STATUS(pass_.add(sequences, {.temperature = temperature, .loss = &loss},
                             options_.batch_tokens, on_part));
  sums.policy = loss.sums();
  sums.entropy = loss.entropy();
  return sums;
}

Result<GrpoEval> Grpo::evaluate(const std::vector<TrainPrompt>& prompts, int samples,
                                const RolloutOptions& rollout, const OnTokens& on_tokens) {
  std::vector<RolloutPrompt> asked;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    for (int k = 0; k < samples; ++k) {
      asked.push_back({.ids = &prompts[i].ids, .seed = seed_of(options_.seed, kEvalStream, i, k)});
    }
  }
  GLINT_TRY(const std::vector<Rollout> rollouts, run_rollouts(model_, asked, rollout, on_tokens));
  std::vector<const TrainPrompt*> row_of;
  for (const TrainPrompt& row : prompts) {
    row_of.insert(row_of.end(), static_cast<std::size_t>(samples), &row);
  }
  GLINT_TRY(const std::vector<double> rewards, grade(row_of, rollouts));
  GrpoEval eval = {.answers = static_cast<std::int64_t>(rollouts.size())};
  for (int k = 1; k < samples; k *= 2) eval.pass_rates.emplace_back(k, 0);
  eval.pass_rates.emplace_back(samples, 0);
  int right = 0;  // of the prompt's answers so far
  for (std::size_t i = 0; i < rollouts.size(); ++i) {
    const auto each = static_cast<std::size_t>(samples);
    const TrainPrompt& prompt = prompts[i / each];
    if (i % each == 0 && eval.samples.size() < kEvalSamples) {
      eval.samples.push_back(sample_of(prompt, rollouts[i], rewards[i]));
    }
    right = (i % each == 0 ? 0 : right) + (rewards[i] > 0);
    if (i % each + 1 == each) {
      for (auto& [k, rate] : eval.pass_rates) {
        rate += pass_rate(samples, right, k) / static_cast<double>(prompts.size());
      }
    }
    eval.reward += rewards[i];
    eval.response_tokens += static_cast<double>(rollouts[i].answer.size());
    eval.truncated += rollouts[i].truncated;
  }
  const auto count = static_cast<double>(eval.answers);
  eval.reward /= count, eval.response_tokens /= count, eval.truncated /= count;
  return eval;
}

}  // namespace glint
