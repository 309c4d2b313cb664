#include "rl/rollout.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/str.h"
#include "rl/rollout_end.h"
#include "train/train_sequence.h"

namespace glint {
namespace {

// The rollouts, while an engine answers.
class Run {
 public:
  Run(const ModelConfig& config, RolloutSession& session, const std::vector<RolloutPrompt>& prompts,
      const RolloutOptions& options)
      : session_(session),
        prompts_(prompts),
        options_(options),
        a_token_(static_cast<std::size_t>(config.num_moe_layers()) *
                 static_cast<std::size_t>(config.num_experts_per_tok)),
        end_(prompts.size(), options.group_size, options.groups_wanted) {}

  Result<std::vector<Rollout>> run(const OnRolloutTokens& on_tokens) {
    routes_before_.resize(prompts_.size());
    first_route_.resize(prompts_.size());
    requests_.resize(prompts_.size());
    for (std::size_t i = 0; i < prompts_.size(); ++i) {
      rollouts_.push_back(prompts_[i].begun ? *prompts_[i].begun : Rollout());
      begun_.push_back(rollouts_[i].size());
      state_.push_back(State::kRuns);
      if (rollouts_[i].finished) {
        state_[i] = State::kDone;
        end_.finish(i, 0);
        continue;
      }
      // Routes of rows before those that this call runs.
      std::swap(routes_before_[i], rollouts_[i].routes);
      GLINT_TRY_STATUS(submit(i));
      ++left_;
    }
    const auto on_events = [&](std::vector<TokenEvent> step) -> Result<bool> {
      int tokens = 0;
      for (const TokenEvent& event : step) {
        GLINT_TRY_STATUS(take(event));
        tokens += static_cast<int>(event.tokens.size());
      }
      stop_the_late();
      if (!on_tokens(tokens)) return unavailable("interrupted");
      return left_ > 0;
    };
    if (left_ > 0) {
      GLINT_TRY_STATUS(session_.run(on_events));
    }
    for (std::size_t i = 0; i < prompts_.size(); ++i) cut(i);
    if (options_.routes) complete_routes();
    return std::move(rollouts_);
  }

 private:
  enum class State { kRuns, kStopped, kDone };

  Status submit(std::size_t i) {
    const Rollout& rollout = rollouts_[i];
    std::vector<TokenId> prompt = *prompts_[i].ids;
    prompt.insert(prompt.end(), rollout.answer.begin(), rollout.answer.end());
    // Rows of another prompt, or of an answer's earlier part, have their experts elsewhere: only
    // answers that begin share theirs, which follow each other.
    const bool shares = rollout.size() == 0 && i > 0 && prompts_[i].ids == prompts_[i - 1].ids &&
                        begun_[i - 1] == 0;
    if (!shares) ++salt_;
    std::shared_ptr<TokenConstraint> constraint;
    if (options_.constrain) constraint = options_.constrain(i);
    if (constraint) {
      for (const TokenId id : rollout.answer) constraint->accept(id);
    }
    // The engine may know the request of an earlier turn still.
    owners_.push_back(i);
    requests_[i] = owners_.size();
    return session_.submit({.id = requests_[i],
                            .prompt = std::move(prompt),
                            .sampling = {.temperature = options_.temperature,
                                         .top_p = options_.top_p,
                                         .top_k = options_.top_k,
                                         .seed = prompts_[i].seed},
                            .max_tokens = options_.max_tokens - rollout.size(),
                            .stop_ids = std::vector<TokenId>(options_.stop_ids),
                            .cache_salt = options_.routes ? salt_ : 0,
                            .want = {.top_logprobs = 0, .routed_experts = options_.routes},
                            .constraint = std::move(constraint)});
  }

  Status take(const TokenEvent& event) {
    const std::size_t i = owners_[event.id - 1];
    Rollout& rollout = rollouts_[i];
    rollout.answer.insert(rollout.answer.end(), event.tokens.begin(), event.tokens.end());
    for (const TokenLogprob& one : event.logprobs) rollout.log_probs.push_back(one.logprob);
    rollout.versions.resize(rollout.answer.size(), options_.version);
    rollout.chosen.resize(rollout.answer.size(), 1);
    const auto& experts = event.extras.routed_experts;
    rollout.routes.insert(rollout.routes.end(), experts.begin(), experts.end());
    if (!event.finished) return Ok{};
    if (*event.finished == FinishReason::kError) return invalid(event.error);
    if (rollout.turns == 0) rollout.cached_tokens = event.usage.cached_tokens;
    rollout.drafted += event.usage.drafted;
    rollout.accepted += event.usage.accepted;
    --left_;
    if (*event.finished == FinishReason::kCancelled) return Ok{};
    rollout.truncated = *event.finished == FinishReason::kLength;
    ++rollout.turns;
    if (!rollout.truncated && options_.next_turn && rollout.turns < options_.max_turns) {
      GLINT_TRY(const bool goes_on, begin_turn(i));
      if (goes_on) return submit(i);
    }
    state_[i] = State::kDone;
    rollout.finished = true;
    end_.finish(i, rollout.size() - begun_[i]);
    return Ok{};
  }

  // Whether the answer has another turn, whose beginning it then holds.
  Result<bool> begin_turn(std::size_t i) {
    Rollout& rollout = rollouts_[i];
    GLINT_TRY(const std::vector<TokenId> ids, options_.next_turn(i, rollout));
    if (ids.empty()) return false;
    rollout.truncated = rollout.size() + std::ssize(ids) >= options_.max_tokens;
    if (rollout.truncated) return false;
    if (options_.routes) {
      if (routes_before_[i].empty()) first_route_[i] = num_routes(i) - rollout.routes.size();
      join_routes(i);
      routes_before_[i] = std::exchange(rollout.routes, {});
    }
    rollout.answer.insert(rollout.answer.end(), ids.begin(), ids.end());
    rollout.log_probs.resize(rollout.answer.size(), 0);
    rollout.versions.resize(rollout.answer.size(), options_.version);
    rollout.chosen.resize(rollout.answer.size(), 0);
    ++left_;
    return true;
  }

  void stop_the_late() {
    if (end_.limit() == INT_MAX) return;
    for (std::size_t i = 0; i < prompts_.size(); ++i) {
      if (state_[i] != State::kRuns || rollouts_[i].size() - begun_[i] < end_.limit()) continue;
      state_[i] = State::kStopped;
      session_.abort(requests_[i]);
    }
  }

  // Takes back what came after the end.
  void cut(std::size_t i) {
    Rollout& rollout = rollouts_[i];
    const int most = end_.limit() == INT_MAX ? INT_MAX : begun_[i] + end_.limit();
    if (rollout.size() > most) {
      if (rollout.finished) --rollout.turns;
      rollout.finished = rollout.truncated = false;
      const auto size = static_cast<std::size_t>(most);
      // A token less is a row less.
      const std::size_t rows = (rollout.answer.size() - size) * a_token_;
      rollout.routes.resize(rollout.routes.size() - std::min(rows, rollout.routes.size()));
      rollout.answer.resize(size);
      rollout.log_probs.resize(size);
      rollout.versions.resize(size);
      rollout.chosen.resize(size);
    }
    join_routes(i);
  }

  // Puts the experts of the last rows behind those that were known before them.
  void join_routes(std::size_t i) {
    Rollout& rollout = rollouts_[i];
    std::vector<std::int32_t>& before = routes_before_[i];
    if (before.empty()) return;
    // All rows ran again, by the newest weights: these are the experts that its last tokens saw.
    if (rollout.routes.size() == num_routes(i)) return before.clear();
    const std::size_t missing = num_routes(i) - first_route_[i] - before.size();
    before.insert(before.end(), rollout.routes.end() - static_cast<std::ptrdiff_t>(missing),
                  rollout.routes.end());
    rollout.routes = std::exchange(before, {});
  }

  std::size_t num_routes(std::size_t i) const {
    return (prompts_[i].ids->size() + rollouts_[i].answer.size() - 1) * a_token_;
  }

  // Rows of cached tokens did not run for this answer: their experts are those of another answer to
  // the same prompt.
  void complete_routes() {
    const auto missing = [&](std::size_t i) { return num_routes(i) - rollouts_[i].routes.size(); };
    for (std::size_t i = 0; i < prompts_.size(); ++i) {
      if (rollouts_[i].answer.empty()) {
        rollouts_[i].routes.clear();  // stopped before it began
        continue;
      }
      const std::size_t count = missing(i);
      for (std::size_t j = 0; count > 0 && j < prompts_.size(); ++j) {
        const bool is_whole = begun_[j] == 0 && missing(j) == 0;
        if (prompts_[j].ids != prompts_[i].ids || !is_whole) continue;
        const auto first = rollouts_[j].routes.begin();
        std::vector<std::int32_t> whole(first, first + static_cast<std::ptrdiff_t>(count));
        whole.insert(whole.end(), rollouts_[i].routes.begin(), rollouts_[i].routes.end());
        rollouts_[i].routes = std::move(whole);
        break;
      }
      GLINT_CHECK(missing(i) == 0, "no answer to a prompt tells the experts of all its tokens");
    }
  }

  RolloutSession& session_;
  const std::vector<RolloutPrompt>& prompts_;
  const RolloutOptions& options_;
  const std::size_t a_token_;  // experts of one
  RolloutEnd end_;
  std::uint64_t salt_ = 0;
  std::size_t left_ = 0;  // requests
  std::vector<Rollout> rollouts_;
  std::vector<int> begun_;  // tokens of each before this call
  std::vector<State> state_;
  std::vector<std::vector<std::int32_t>> routes_before_;
  std::vector<std::size_t> first_route_;  // of these, among all of prompt and answer
  std::vector<std::size_t> owners_;       // of request 1, 2 ...
  std::vector<RequestId> requests_;       // the newest of each
};

}  // namespace

std::size_t Rollout::last_turn() const {
  std::size_t begin = chosen.size();
  while (begin > 0 && chosen[begin - 1]) --begin;
  return begin;
}

bool ends_in_repetition(std::span<const TokenId> answer) {
  constexpr std::size_t kTokens = 2048, kRun = 8;
  if (answer.size() < kTokens) return false;
  std::set<std::array<TokenId, kRun>> runs;
  for (std::size_t i = answer.size() - kTokens; i + kRun <= answer.size(); ++i) {
    std::array<TokenId, kRun> run = {};
    std::ranges::copy(answer.subspan(i, kRun), run.begin());
    runs.insert(run);
  }
  return runs.size() < kTokens / 5;
}

Result<std::vector<Rollout>> run_rollouts(RolloutEngine& engine,
                                          const std::vector<RolloutPrompt>& prompts,
                                          const RolloutOptions& options,
                                          const OnRolloutTokens& on_tokens) {
  std::size_t longest = 0;
  for (const RolloutPrompt& prompt : prompts) longest = std::max(longest, prompt.ids->size());
  longest += static_cast<std::size_t>(options.max_tokens);
  const ModelConfig& config = engine.config();
  if (static_cast<std::int64_t>(longest) > config.max_position_embeddings) {
    return invalid(str("a prompt and an answer may have ", longest, " tokens; the model has ",
                       config.max_position_embeddings, " positions"));
  }
  GLINT_CHECK(!options.next_turn || options.groups_wanted == 0, "turns come to their end");
  const int requests = static_cast<int>(prompts.size());
  GLINT_TRY(const std::unique_ptr<RolloutSession> session,
            engine.begin({.longest = static_cast<int>(longest),
                          .running = std::min(options.max_running, requests),
                          .requests = requests,
                          .num_drafts = options.num_drafts,
                          .num_token_ids = options.num_token_ids}));
  return Run(config, *session, prompts, options).run(on_tokens);
}

}  // namespace glint
