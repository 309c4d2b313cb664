// Requests and results in, events out. Plans are made in scheduler_plan.cc.
#include "engine/scheduler.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/str.h"
#include "engine/scheduler_state.h"

namespace glint {
namespace {

// No sequence can be longer than what a replica's cache holds, or the oldest could stop for ever.
SchedulerConfig resolve(SchedulerConfig config, const KvCacheConfig& cache) {
  GLINT_CHECK(config.num_replicas > 0 && config.max_step_tokens > 0 && config.max_running > 0 &&
                  config.depth > 0,
              "limits of the scheduler are positive");
  const std::int64_t held = std::int64_t{cache.num_pages} * cache.page_size;
  config.max_seq_len = static_cast<int>(std::min<std::int64_t>(config.max_seq_len, held));
  const std::int64_t rows = std::int64_t{config.max_step_tokens} * config.num_replicas;
  config.max_running = static_cast<int>(std::min<std::int64_t>(config.max_running, rows));
  return config;
}

const char* sentence_of(SliceFailure failure) {
  switch (failure) {
    case SliceFailure::kNotNumbers:
      return "the logits of this request were not numbers";
    case SliceFailure::kNoToken:
      return "what this request asks for leaves no token that may come: its grammar, allowed "
             "tokens, bad words and min_tokens exclude each other";
    case SliceFailure::kGrammar:
      return "the grammar of this request is too ambiguous: finding what may come next takes more "
             "work than a token may cost";
    case SliceFailure::kNone:
      break;
  }
  return "";
}

}  // namespace

Status check_request(const Request& request, const SchedulerConfig& config) {
  const std::size_t size = request.prompt.size();
  if (size == 0) return invalid("the prompt is empty; it must have at least one token");
  if (size >= static_cast<std::size_t>(config.max_seq_len)) {
    return invalid(str("the prompt has ", size, " tokens, but prompt and answer together can have ",
                       config.max_seq_len, " here; shorten it"));
  }
  if (request.max_tokens < 1)
    return invalid(str("max_tokens is ", request.max_tokens, "; it must be 1 or more"));
  if (request.min_tokens < 0 || request.min_tokens > request.max_tokens) {
    return invalid(str("min_tokens is ", request.min_tokens,
                       "; it must be between 0 and max_tokens, ", request.max_tokens));
  }
  if (request.stop_ids.size() > kMaxStopIds) {
    return invalid(str("the request has ", request.stop_ids.size(), " stop ids; at most ",
                       kMaxStopIds, " are allowed"));
  }
  return validate(request.sampling);
}

Scheduler::State::State(const SchedulerConfig& scheduler_config, const KvCacheConfig& cache)
    : config(resolve(scheduler_config, cache)) {
  for (int i = 0; i < config.num_replicas; ++i) replicas.emplace_back(cache);
  stats.accepted_per_position.resize(static_cast<std::size_t>(std::max(0, config.max_drafts)));
}

Scheduler::Scheduler(const SchedulerConfig& config, const KvCacheConfig& cache)
    : state_(std::make_unique<State>(config, cache)) {}
Scheduler::~Scheduler() = default;

Status Scheduler::add(Request request) {
  State& s = *state_;
  GLINT_TRY_STATUS(check_request(request, s.config));
  auto seq = std::make_unique<Sequence>();
  seq->tokens = request.prompt;
  seq->age = s.next_age++;
  seq->limit = static_cast<int>(std::min<std::int64_t>(
      std::int64_t{seq->num_tokens()} + request.max_tokens, s.config.max_seq_len));
  seq->usage.prompt_tokens = seq->num_tokens();
  request.max_tokens = seq->limit - seq->num_tokens();
  const RequestId id = request.id;
  seq->request = std::make_shared<const Request>(std::move(request));
  Sequence& added = *seq;
  const bool is_new = s.all.emplace(id, std::move(seq)).second;
  GLINT_CHECK(is_new, str("request ", id, " exists already"));
  s.set_waiting(added);
  return Ok{};
}

std::optional<TokenEvent> Scheduler::abort(RequestId id) {
  const auto found = state_->all.find(id);
  if (found == state_->all.end() || found->second->state == Sequence::State::kEnded)
    return std::nullopt;
  TokenEvent event = {.id = id};
  state_->finish(*found->second, FinishReason::kCancelled, event);
  return event;
}

void Scheduler::wake(RequestId id, std::uint64_t number) {
  const auto found = state_->all.find(id);
  if (found == state_->all.end()) return;
  Sequence& seq = *found->second;
  seq.ready =
      std::max(seq.ready, number);  // it may come before the step that was late is committed
}

void Scheduler::abandon_in_flight() {
  State& s = *state_;
  for (State::InFlightStep& step : std::exchange(s.in_flight, {})) {
    s.started.insert(s.started.end(), step.started.begin(), step.started.end());
    s.ended.insert(s.ended.end(), step.ended.begin(), step.ended.end());
  }
  std::vector<Sequence*> gone;
  for (const auto& [id, seq] : s.all) {
    seq->in_flight.clear();
    seq->in_flight_rows = seq->in_flight_new = 0;
    if (seq->state == Sequence::State::kEnded) gone.push_back(seq.get());
    if (seq->state == Sequence::State::kWaiting) s.give_back_pages(*seq);
  }
  for (Sequence* seq : gone) s.forget(*seq);
  preempt_all();
}

void Scheduler::preempt_all() {
  GLINT_CHECK(state_->in_flight.empty(), "a step is in flight");
  while (!state_->running.empty()) state_->preempt(**state_->running.rbegin());
}

void Scheduler::flush_cache() {
  for (State::Replica& replica : state_->replicas) replica.cache.flush();
}

std::vector<TokenEvent> Scheduler::commit(const StepPlan& plan, StepResult result) {
  State& s = *state_;
  GLINT_CHECK(!s.in_flight.empty() && s.in_flight.front().step == plan.step,
              str("step ", plan.step, " is not the oldest in flight"));
  GLINT_CHECK(result.sampled.size() == plan.slices.size(),
              str(result.sampled.size(), " results of ", plan.slices.size(), " slices"));
  const State::InFlightStep step = std::move(s.in_flight.front());
  s.in_flight.pop_front();
  if (!plan.slices.empty()) ++s.stats.steps;
  std::vector<TokenEvent> events;
  events.reserve(plan.slices.size());
  for (std::size_t i = 0; i < plan.slices.size(); ++i) {
    GLINT_CHECK(result.sampled[i].id == plan.slices[i].id, "results are in plan order");
    TokenEvent event = {.id = plan.slices[i].id};
    s.apply(plan.slices[i], result.sampled[i], *step.sequences[i], event);
    const Extras& extras = event.extras;
    if (!event.tokens.empty() || event.finished || !extras.prompt_logprobs.empty() ||
        !extras.routed_experts.empty() || !extras.selected_keys.empty()) {
      events.push_back(std::move(event));
    }
  }
  return events;
}

// One slice of `seq` ran.
void Scheduler::State::apply(const SeqSlice& slice, StepResult::Sampled& sampled, Sequence& seq,
                             TokenEvent& event) {
  const Sequence::InFlight planned = seq.in_flight.front();
  seq.in_flight.pop_front();
  seq.in_flight_rows -= planned.count;
  seq.in_flight_new -= planned.max_new;
  if (seq.state == Sequence::State::kEnded) {
    if (seq.in_flight.empty()) forget(seq);
    return;
  }
  const int num_new = static_cast<int>(sampled.tokens.size());
  const bool failed = sampled.failure != SliceFailure::kNone;
  const int fewest = slice.sample && !sampled.late && !sampled.finished && !failed ? 1 : 0;
  const int most = slice.sample && !sampled.late ? slice.max_new : 0;
  GLINT_CHECK(num_new >= fewest && num_new <= most,
              str("request ", slice.id, ": ", num_new, " tokens, at most ", most));
  event.extras = std::move(sampled.extras);
  event.usage.cached_tokens = seq.usage.cached_tokens;
  if (failed) {
    event.error = sentence_of(sampled.failure);
    event.impossible = sampled.failure != SliceFailure::kNotNumbers;
    finish(seq, FinishReason::kError, event);
    return;
  }
  seq.late = std::max(seq.late, sampled.late);
  const int accepted = std::max(0, num_new - 1);
  const int of_prompt = std::min(slice.first + slice.count, seq.prompt_size()) - slice.first;
  stats.read_prompt_tokens += static_cast<std::uint64_t>(std::max(0, of_prompt));
  seq.num_computed += slice.count - slice.num_drafts + accepted;
  if (sampled.drafted > 0) {
    seq.drafts.record(sampled.drafted, accepted);
    seq.usage.drafted += sampled.drafted;
    seq.usage.accepted += accepted;
    ++stats.drafts;
    stats.drafted_tokens += static_cast<std::uint64_t>(sampled.drafted);
    stats.accepted_tokens += static_cast<std::uint64_t>(accepted);
    for (int i = 0; i < accepted; ++i) ++stats.accepted_per_position[static_cast<std::size_t>(i)];
  }
  seq.tokens.append(sampled.tokens);
  stats.generated_tokens += sampled.tokens.size();
  event.tokens = std::move(sampled.tokens);
  event.logprobs = std::move(sampled.logprobs);
  event.stop_id = sampled.stop_id;
  GLINT_CHECK(seq.num_tokens() < seq.limit || sampled.finished,
              str("request ", slice.id, " has ", seq.num_tokens(), " tokens and goes on"));
  // The last row runs again where it gave no token.
  seq.num_computed = std::min(seq.num_computed, seq.num_tokens() - 1);
  cache_of(seq).publish(seq.pages, seq.tokens, seq.num_computed, seq.request->cache_salt);
  if (sampled.finished) {
    finish(seq, *sampled.finished, event);
  } else if (seq.state == Sequence::State::kWaiting && seq.in_flight.empty()) {
    give_back_pages(seq);
  }
}

void Scheduler::State::finish(Sequence& seq, FinishReason reason, TokenEvent& event) {
  event.finished = reason;
  seq.usage.completion_tokens = seq.num_tokens() - seq.prompt_size();
  event.usage = seq.usage;
  if (seq.started) ended.push_back(seq.id());
  if (seq.state == Sequence::State::kWaiting) leave_queue(seq);
  if (seq.state == Sequence::State::kRunning) leave_running(seq);
  seq.state = Sequence::State::kEnded;
  if (seq.in_flight.empty()) forget(seq);
}

void Scheduler::State::set_waiting(Sequence& seq) {
  seq.state = Sequence::State::kWaiting;
  seq.queued_tokens = seq.num_tokens();
  queued_tokens += seq.queued_tokens;
  waiting.insert(&seq);
}

void Scheduler::State::leave_queue(Sequence& seq) {
  waiting.erase(&seq);
  queued_tokens -= seq.queued_tokens;
}

void Scheduler::State::join_running(Sequence& seq) {
  if (free_seats.empty()) free_seats.push_back(static_cast<int>(running.size()));
  seq.seat = free_seats.back();
  free_seats.pop_back();
  seq.state = Sequence::State::kRunning;
  running.insert(&seq);
  ++replica(seq.replica).num_running;
}

// Pages of `seq` come back with its last step in flight. Its seat is free at once: whoever takes it
// uses it in later steps.
void Scheduler::State::leave_running(Sequence& seq) {
  free_seats.push_back(std::exchange(seq.seat, -1));
  running.erase(&seq);
  --replica(seq.replica).num_running;
  giving_back.push_back(&seq);
}

// Only for a sequence that does not run and has no step in flight.
void Scheduler::State::give_back_pages(Sequence& seq) {
  seq.pages = {};
  seq.num_computed = 0;
  giving_back.erase(std::remove(giving_back.begin(), giving_back.end(), &seq), giving_back.end());
}

void Scheduler::State::forget(Sequence& seq) {
  give_back_pages(seq);
  all.erase(seq.id());
}

int Scheduler::num_waiting() const { return static_cast<int>(state_->waiting.size()); }
int Scheduler::num_running() const { return static_cast<int>(state_->running.size()); }

int Scheduler::num_decoding() const {
  std::vector<int> decoding(state_->replicas.size());
  for (const Sequence* seq : state_->running)
    decoding[static_cast<std::size_t>(seq->replica)] += seq->decodes();
  return *std::max_element(decoding.begin(), decoding.end());
}

std::int64_t Scheduler::num_waiting_tokens() const {
  std::int64_t total = state_->queued_tokens;
  for (const Sequence* seq : state_->running) total += std::max(0, seq->num_left() - 1);
  return total;
}

bool Scheduler::idle() const {
  return state_->all.empty() && state_->in_flight.empty() && state_->ended.empty();
}
int Scheduler::num_in_flight() const { return static_cast<int>(state_->in_flight.size()); }
const SchedulerStats& Scheduler::stats() const { return state_->stats; }
const KvCache& Scheduler::cache(int replica) const { return state_->replica(replica).cache; }
int Scheduler::max_seq_len() const { return state_->config.max_seq_len; }

std::vector<RequestId> Scheduler::alive() const {
  std::vector<RequestId> ids;
  for (const auto* queue : {&state_->running, &state_->waiting})
    for (const Sequence* seq : *queue) ids.push_back(seq->id());
  return ids;
}

void Scheduler::check_invariants() const {
  const State& s = *state_;
  std::vector<std::vector<const PageTable*>> tables(s.replicas.size());
  std::vector<int> running(s.replicas.size());
  std::int64_t queued = 0;
  for (const auto& [id, seq] : s.all) {
    const auto replica = static_cast<std::size_t>(seq->replica);
    tables[replica].push_back(&seq->pages);
    running[replica] += seq->state == Sequence::State::kRunning;
    const int held = static_cast<int>(seq->pages.pages().size()) * s.cache_of(*seq).page_size();
    const bool is_waiting = seq->state == Sequence::State::kWaiting;
    GLINT_CHECK(s.waiting.count(seq.get()) == (is_waiting ? 1u : 0u), "waits in the queue");
    GLINT_CHECK(s.running.count(seq.get()) == (seq->state == Sequence::State::kRunning ? 1u : 0u),
                "runs among the running");
    GLINT_CHECK(seq->num_computed < seq->num_tokens() && seq->num_tokens() <= seq->limit,
                str(seq->num_computed, " computed of ", seq->num_tokens()));
    GLINT_CHECK(held >= seq->planned_computed(), "pages cover what is computed and in flight");
    GLINT_CHECK(seq->planned_tokens() <= seq->limit, "never more tokens than the limit");
    GLINT_CHECK(!is_waiting || seq->pages.pages().empty() == seq->in_flight.empty(),
                "who waits holds pages only while a step is in flight");
    GLINT_CHECK(seq->state != Sequence::State::kEnded || !seq->in_flight.empty(),
                "an ended sequence is forgotten with its last step");
    int rows = 0, fresh = 0;
    for (const Sequence::InFlight& slice : seq->in_flight)
      rows += slice.count, fresh += slice.max_new;
    GLINT_CHECK(rows == seq->in_flight_rows && fresh == seq->in_flight_new, "sums in flight");
    if (!is_waiting) continue;
    queued += seq->queued_tokens;
  }
  std::set<int> seats(s.free_seats.begin(), s.free_seats.end());
  for (const Sequence* seq : s.running) seats.insert(seq->seat);
  GLINT_CHECK(seats.size() == s.free_seats.size() + s.running.size() &&
                  (seats.empty() ||
                   (*seats.begin() == 0 && *seats.rbegin() + 1 == static_cast<int>(seats.size()))),
              "seats are 0, 1, .. and each is somebody's or free");
  GLINT_CHECK(queued == s.queued_tokens, "counts of the queue");
  GLINT_CHECK(static_cast<int>(s.running.size()) <= s.config.max_running, "too many run");
  for (std::size_t i = 0; i < s.replicas.size(); ++i) {
    GLINT_CHECK(running[i] == s.replicas[i].num_running, str("counts of replica ", i));
    GLINT_CHECK(running[i] <= s.config.max_step_tokens, str("too many run on replica ", i));
    s.replicas[i].cache.check_invariants(tables[i]);
  }
}

}  // namespace glint
