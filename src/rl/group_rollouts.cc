#include "rl/group_rollouts.h"

#include <algorithm>
#include <numeric>

#include "base/contains.h"
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

}  // namespace

bool AnswerGroup::finished() const {
  return std::ranges::all_of(answers, [](const Rollout& answer) { return answer.finished; });
}

std::int32_t AnswerGroup::oldest_version(std::int32_t if_empty) const {
  std::int32_t oldest = if_empty;
  for (const Rollout& answer : answers) {
    if (!answer.versions.empty()) oldest = std::min(oldest, answer.versions.front());
  }
  return oldest;
}

double GrpoBatch::mean_reward() const {
  return std::accumulate(rewards.begin(), rewards.end(), 0.0) / static_cast<double>(rewards.size());
}

double GrpoBatch::mean_length() const {
  return static_cast<double>(counts.tokens) / static_cast<double>(rewards.size());
}

GroupRollouts::GroupRollouts(RolloutEngine& engine, const Tokenizer& tokenizer,
                             const Reward* reward, const GroupOptions& options)
    : engine_(engine), tokenizer_(tokenizer), reward_(reward), options_(options) {}

// Without the stop token, which an answer that its form ends has not.
std::string GroupRollouts::text_of(const Rollout& rollout) const {
  const std::vector<TokenId>& stops = options_.rollout.stop_ids;
  const bool stopped = !rollout.answer.empty() && contains(stops, rollout.answer.back());
  return tokenizer_.decode(std::span(rollout.answer).first(rollout.answer.size() - stopped));
}

AnswerSample GroupRollouts::sample_of(const TrainPrompt& prompt, const Rollout& rollout,
                                      double reward) const {
  return {.line = prompt.line,
          .prompt = tokenizer_.decode(prompt.ids),
          .label = prompt.label,
          .answer = text_of(rollout),
          .reward = reward,
          .truncated = rollout.truncated};
}

Result<std::vector<double>> GroupRollouts::grade(const Rows& rows,
                                                 const std::vector<const Rollout*>& rollouts,
                                                 const std::string& key,
                                                 const OnRolloutTokens& on_tokens) const {
  std::vector<double> rewards(rollouts.size());
  std::vector<AnswerToGrade> elsewhere;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < rollouts.size(); ++i) {
    const TrainPrompt& row = *rows[i];
    const std::string text = text_of(*rollouts[i]);
    if (row.rm_type == kRemoteRule || (row.rm_type.empty() && !reward_)) {
      elsewhere.push_back({tokenizer_.decode(row.ids), text, row.given_label});
      places.push_back(i);
    } else if (row.rm_type.empty()) {
      rewards[i] = reward_->grade(text, row.label).reward;
    } else {
      GLINT_TRY(const Reward own, Reward::named(row.rm_type));
      rewards[i] = own.grade(text, row.label).reward;
    }
  }
  if (elsewhere.empty()) return rewards;
  GLINT_TRY(const std::vector<double> found,
            options_.remote(elsewhere, key, [&] { return on_tokens(0); }));
  GLINT_CHECK(found.size() == places.size(), "a reward for each answer");
  for (std::size_t i = 0; i < found.size(); ++i) rewards[places[i]] = found[i];
  return rewards;
}

void GroupRollouts::add_new_groups(std::vector<AnswerGroup>& groups, const RolloutStart& start,
                                   GrpoBatch& batch) const {
  const auto n = static_cast<std::size_t>(options_.n_samples_per_prompt);
  const int asked = std::max(options_.rollout_batch_size, options_.over_sampling_batch_size);
  for (AnswerGroup& group : groups) {
    const std::int32_t behind = start.trained_at - group.oldest_version(start.trained_at);
    if (options_.max_staleness && behind > *options_.max_staleness) {
      group.answers.assign(n, Rollout());
    }
  }
  while (std::ssize(groups) < asked) {
    groups.push_back(
        {.at = start.position + batch.prompts_used++, .answers = std::vector<Rollout>(n)});
  }
}

RolloutOptions GroupRollouts::with_rules(RolloutOptions how, const Rows& rows,
                                         std::size_t answers_to_each) const {
  const AnswerRules& rules = options_.rules;
  const auto row_of = [&rows, answers_to_each](std::size_t prompt) -> const TrainPrompt& {
    return *rows[prompt / answers_to_each];
  };
  if (rules.constrain) {
    how.constrain = [&rules, row_of](std::size_t prompt) {
      return rules.constrain(row_of(prompt).ids);
    };
  }
  if (!rules.tools) return how;
  how.max_turns = rules.max_turns;
  how.next_turn = [&rules, row_of](std::size_t prompt, const Rollout& rollout) {
    const TrainPrompt& row = row_of(prompt);
    const auto turn = std::span(rollout.answer).subspan(rollout.last_turn());
    std::vector<TokenId> before = row.ids;
    before.insert(before.end(), rollout.answer.begin(), rollout.answer.end() - std::ssize(turn));
    return rules.tools->next(before, turn, row.tools, row.template_kwargs);
  };
  return how;
}

Status GroupRollouts::run(std::vector<AnswerGroup>& groups, const Rows& rows,
                          const RolloutStart& start, int wanted, const OnRolloutTokens& on_tokens) {
  std::vector<RolloutPrompt> asked;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (int k = 0; k < options_.n_samples_per_prompt; ++k) {
      asked.push_back({.ids = &rows[g]->ids,
                       .seed = seed_of(options_.seed, kTrainStream, groups[g].at, k),
                       .begun = &groups[g].answers[static_cast<std::size_t>(k)]});
    }
  }
  RolloutOptions how =
      with_rules(options_.rollout, rows, static_cast<std::size_t>(options_.n_samples_per_prompt));
  how.version = start.version;
  how.group_size = options_.n_samples_per_prompt;
  how.groups_wanted = options_.over_sampling_batch_size > 0 ? wanted : 0;
  GLINT_TRY(std::vector<Rollout> rollouts, run_rollouts(engine_, asked, how, on_tokens));
  auto next = rollouts.begin();
  for (AnswerGroup& group : groups) {
    for (Rollout& answer : group.answers) answer = std::move(*next++);
  }
  return Ok{};
}

Result<GrpoBatch> GroupRollouts::roll_out(const std::vector<TrainPrompt>& prompts, RowOrder& order,
                                          RolloutStart start, const OnRolloutTokens& on_tokens) {
  GrpoBatch batch = {.version = start.version};
  batch.begun = std::move(start.begun);
  int taken = 0;  // groups
  const int rounds = std::max(options_.dynamic_sampling_rounds, 1);
  for (int round = 0; round < rounds && taken < options_.rollout_batch_size; ++round) {
    std::vector<AnswerGroup> groups = std::exchange(batch.begun, {});
    add_new_groups(groups, start, batch);
    Rows rows;
    for (const AnswerGroup& group : groups) rows.push_back(&prompts[order.row_at(group.at)]);
    GLINT_TRY_STATUS(run(groups, rows, start, options_.rollout_batch_size - taken, on_tokens));
    const std::vector<bool> is_graded =
        groups_to_grade(groups, options_.rollout_batch_size - taken);
    Rows row_of;
    std::vector<const Rollout*> finished;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (!is_graded[g]) continue;
      for (const Rollout& answer : groups[g].answers) {
        row_of.push_back(rows[g]);
        finished.push_back(&answer);
      }
    }
    GLINT_TRY(const std::vector<double> rewards,
              grade(row_of, finished, options_.reward_key, on_tokens));
    std::span<const double> left = rewards;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const bool is_full = taken >= options_.rollout_batch_size;
      const auto its = left.first(is_graded[g] ? groups[g].answers.size() : 0);
      left = left.subspan(its.size());
      if (options_.partial && (!is_graded[g] || is_full)) {
        batch.begun.push_back(std::move(groups[g]));
      } else if (is_graded[g]) {
        taken += take(*rows[g], std::move(groups[g]), its, start, batch);
      }
    }
  }
  if (taken < options_.rollout_batch_size) {
    return invalid(str("after ", batch.counts.groups, " prompts only ", taken, " of ",
                       options_.rollout_batch_size,
                       " groups have answers of different rewards; a larger "
                       "--dynamic-sampling-rounds asks more prompts; a new run may have easier or "
                       "harder ones, or more answers to each (--n-samples-per-prompt)"));
  }
  return batch;
}

std::vector<bool> GroupRollouts::groups_to_grade(const std::vector<AnswerGroup>& groups,
                                                 int room) const {
  const bool waits = options_.partial && options_.dynamic_sampling_rounds == 0;
  std::vector<bool> all;
  for (const AnswerGroup& group : groups) {
    all.push_back((room > 0 || !waits) && group.finished());
    room -= all.back();
  }
  return all;
}

bool GroupRollouts::take(const TrainPrompt& row, AnswerGroup group, std::span<const double> given,
                         const RolloutStart& start, GrpoBatch& batch) const {
  AnswerCounts& counts = batch.counts;
  std::vector<double> rewards(given.begin(), given.end());
  for (std::size_t k = 0; k < rewards.size(); ++k) {
    const Rollout& answer = group.answers[k];
    batch.rewards.push_back(given[k]);
    counts.tokens += answer.size();
    counts.longest = std::max<std::int64_t>(counts.longest, answer.size());
    counts.truncated += answer.truncated;
    counts.repeating += ends_in_repetition(answer.answer);
    counts.turns += answer.turns;
    counts.prompt_tokens += std::ssize(row.ids);
    counts.cached_tokens += answer.cached_tokens;
    counts.drafted += answer.drafted;
    counts.accepted += answer.accepted;
    for (const std::int32_t version : answer.versions) {
      counts.staleness += start.trained_at - version;
      counts.max_staleness =
          std::max<std::int64_t>(counts.max_staleness, start.trained_at - version);
    }
    if (options_.overlong_margin > 0) {
      rewards[k] += overlong_penalty(answer.size(), options_.rollout.max_tokens,
                                     options_.overlong_margin, options_.overlong_penalty);
    }
  }
  const bool differ = rewards_differ(rewards);
  if (differ && batch.samples.empty()) {
    const auto [worst, best] = std::minmax_element(rewards.begin(), rewards.end());
    for (const auto one : {best, worst}) {
      const auto k = static_cast<std::size_t>(one - rewards.begin());
      batch.samples.push_back(sample_of(row, group.answers[k], given[k]));
    }
  }
  ++counts.groups;
  counts.groups_at_highest += !differ && rewards[0] > 0;
  counts.groups_at_lowest += !differ && rewards[0] <= 0;
  const auto wanted =
      static_cast<std::int64_t>(options_.rollout_batch_size) * options_.n_samples_per_prompt;
  const bool filtered = options_.dynamic_sampling_rounds > 0 && !differ;
  if (filtered || std::ssize(batch.answers) >= wanted) return false;
  const std::vector<double> advantages = group_advantages(rewards, options_.std_normalization);
  for (std::size_t k = 0; k < rewards.size(); ++k) {
    GradedAnswer answer = graded(row, std::move(group.answers[k]), start);
    answer.advantage = advantages[k];
    batch.answers.push_back(std::move(answer));
  }
  return true;
}

GradedAnswer GroupRollouts::graded(const TrainPrompt& row, Rollout rollout,
                                   const RolloutStart& start) const {
  GradedAnswer answer = {.tokens = {.ids = row.ids, .routes = std::move(rollout.routes)},
                         .num_prompt = std::ssize(row.ids),
                         .served_log_probs = std::move(rollout.log_probs)};
  answer.num_stale = std::ranges::count_if(
      rollout.versions, [&](std::int32_t version) { return version != start.version; });
  std::vector<TokenId>& ids = answer.tokens.ids;
  ids.insert(ids.end(), rollout.answer.begin(), rollout.answer.end());
  answer.tokens.weights.assign(ids.size(), 1);
  const std::int64_t skipped = answer.num_prompt + (options_.mask_offpolicy ? answer.num_stale : 0);
  std::fill_n(answer.tokens.weights.begin(), skipped, 0.0f);
  for (std::size_t t = 0; t < rollout.chosen.size(); ++t) {
    if (!rollout.chosen[t]) {
      answer.tokens.weights[static_cast<std::size_t>(answer.num_prompt) + t] = 0;
    }
  }
  return answer;
}

Result<GrpoEval> GroupRollouts::evaluate(const std::vector<TrainPrompt>& prompts,
                                         const GrpoEvalOptions& options,
                                         const OnRolloutTokens& on_tokens) {
  const int samples = options.samples;
  std::vector<RolloutPrompt> asked;
  Rows rows, row_of;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    rows.push_back(&prompts[i]);
    for (int k = 0; k < samples; ++k) {
      asked.push_back({.ids = &prompts[i].ids, .seed = seed_of(options_.seed, kEvalStream, i, k)});
      row_of.push_back(&prompts[i]);
    }
  }
  RolloutOptions how = with_rules(options_.rollout, rows, static_cast<std::size_t>(samples));
  how.temperature = options.temperature;
  how.top_p = options.top_p;
  how.top_k = options.top_k;
  how.max_tokens = options.max_tokens;
  how.routes = false;
  GLINT_TRY(const std::vector<Rollout> rollouts, run_rollouts(engine_, asked, how, on_tokens));
  std::vector<const Rollout*> all;
  for (const Rollout& one : rollouts) all.push_back(&one);
  GLINT_TRY(const std::vector<double> rewards,
            grade(row_of, all, options_.eval_reward_key, on_tokens));
  GrpoEval eval = {.answers = std::ssize(rollouts)};
  for (int k = 1; k < samples; k *= 2) eval.pass_rates.emplace_back(k, 0);
  eval.pass_rates.emplace_back(samples, 0);
  int right = 0;  // of the prompt's answers so far
  for (std::size_t i = 0; i < rollouts.size(); ++i) {
    const auto each = static_cast<std::size_t>(samples);
    const TrainPrompt& prompt = prompts[i / each];
    if (i % each == 0 && eval.samples.size() < kEvalSamples) {
      eval.samples.push_back(sample_of(prompt, rollouts[i], rewards[i]));
    }
    right = (i % each == 0 ? 0 : right) + (rewards[i] >= 1);
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
