#include "engine/fake_executor.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <thread>
#include <unordered_map>

#include "base/check.h"
#include "base/contains.h"
#include "base/str.h"

namespace glint {
namespace {

// SplitMix64's finaliser over both.
std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) + 0x9E3779B97F4A7C15u;
  hash = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9u;
  hash = (hash ^ (hash >> 27)) * 0x94D049BB133111EBu;
  return hash ^ (hash >> 31);
}

// State of one request.
struct FakeSequence {
  std::shared_ptr<const Request> request;
  std::vector<TokenId> script;
  std::vector<TokenId> tokens;      // prompt and answer
  std::vector<std::uint64_t> rows;  // of tokens: what the KV memory must hold at their positions
  int num_computed = 0;
  std::uint64_t num_late = 0;
  int num_told = 0;         // rows whose extras were told
  bool has_drafts = false;  // the last slice sampled

  int prompt_size() const { return static_cast<int>(request->prompt.size()); }

  void append(TokenId token, std::uint64_t weights) {
    rows.push_back(mix(rows.empty() ? weights : rows.back(), static_cast<std::uint64_t>(token)));
    tokens.push_back(token);
  }
};

// A slice where its sequence really is.
struct Place {
  const PageId* pages = nullptr;
  int replica = 0;
  int first = 0;
  int num_known = 0;  // rows of known tokens; drafts follow
};

TokenLogprob fake_logprob(TokenId token, int num_top, int vocab_size) {
  TokenLogprob result = {.logprob = -0.125f * static_cast<float>(1 + token % 8), .rank = 1};
  for (int i = 0; i < num_top; ++i) {
    result.top.push_back(
        {.id = (token + i) % vocab_size, .logprob = result.logprob - static_cast<float>(i)});
  }
  return result;
}

}  // namespace

struct FakeExecutor::State {
  explicit State(FakeExecutorOptions o) : options(std::move(o)) {
    const std::size_t slots = static_cast<std::size_t>(options.info.num_replicas) *
                              static_cast<std::size_t>(options.num_pages) *
                              static_cast<std::size_t>(options.page_size);
    if (options.check_rows) memory.resize(slots), draft_memory.resize(slots);
  }

  std::size_t slot(const Place& place, int position) const {
    const int page = place.replica * options.num_pages + place.pages[position / options.page_size];
    return static_cast<std::size_t>(page) * static_cast<std::size_t>(options.page_size) +
           static_cast<std::size_t>(position % options.page_size);
  }

  // The token that `request` samples from `row` as the answer's `index`-th.
  TokenId choose(const Request& request, const std::vector<TokenId>& script, std::uint64_t row,
                 int index) const {
    if (options.script) {
      if (index < static_cast<int>(script.size())) return script[static_cast<std::size_t>(index)];
      return request.stop_ids.empty() ? 0 : request.stop_ids[0];
    }
    const auto vocab = static_cast<std::uint64_t>(options.info.vocab_size);
    auto token = static_cast<TokenId>(mix(row, request.sampling.seed) % vocab);
    while (index < request.min_tokens && contains(request.stop_ids, token))
      token = (token + 1) % options.info.vocab_size;
    return token;
  }

  FakeSequence start(std::shared_ptr<const Request> request) const {
    FakeSequence s;
    if (options.script) s.script = options.script(*request);
    for (const TokenId token : request->prompt) s.append(token, weights);
    s.request = std::move(request);
    return s;
  }

  Place locate(const StepPlan& plan, const SeqSlice& slice, FakeSequence& s) const;
  void check_memory(const FakeSequence& s, const Place& place) const;
  std::uint64_t write_row(const Place& place, const FakeSequence& s, int position, TokenId token);
  void sample(const SeqSlice& slice, const Place& place, FakeSequence& s,
              StepResult::Sampled& result);
  static bool ends(const Request& request, const FakeSequence& s, StepResult::Sampled& result);
  void write_draft_rows(const SeqSlice& slice, const Place& place, const FakeSequence& s);
  Extras extras(const Place& place, FakeSequence& s) const;
  StepResult::Sampled run(const StepPlan& plan, const SeqSlice& slice);

  FakeExecutorOptions options;
  // A launched plan, and when its step is over: steps run one after another, beside the host.
  struct Launched {
    std::shared_ptr<const StepPlan> plan;
    std::chrono::steady_clock::time_point end;
  };
  double seconds_of(const StepPlan& plan) const;

  std::deque<Launched> launched;
  std::chrono::steady_clock::time_point busy_until = {};
  std::unordered_map<RequestId, FakeSequence> sequences;
  std::vector<ExecutorCommand> commands;
  std::uint64_t weights = 1;  // where every hash begins
  std::vector<std::uint64_t> memory;
  std::vector<std::uint64_t> draft_memory;
};

double FakeExecutor::State::seconds_of(const StepPlan& plan) const {
  double seconds = plan.slices.empty() ? 0 : options.step_seconds;
  for (const SeqSlice& slice : plan.slices) {
    seconds +=
        slice.count * (slice.decodes() ? options.decode_row_seconds : options.prompt_row_seconds);
  }
  return seconds;
}

// Where the slice begins: at its `first`, unless that is only a bound. Checks what it says of
// tokens and pages.
Place FakeExecutor::State::locate(const StepPlan& plan, const SeqSlice& slice,
                                  FakeSequence& s) const {
  const std::string where = str("step ", plan.step, ", request ", slice.id, ": ");
  GLINT_CHECK(slice.count > 0 && slice.num_drafts >= 0 && slice.num_drafts < slice.count,
              str(where, slice.count, " rows with ", slice.num_drafts, " drafts"));
  Place place = {.pages = plan.pages.data() + slice.page_begin,
                 .replica = slice.replica,
                 .first = slice.first,
                 .num_known = slice.count - slice.num_drafts};
  GLINT_CHECK(slice.replica >= 0 && slice.replica < options.info.num_replicas,
              str(where, "replica ", slice.replica));
  GLINT_CHECK(slice.replica == 0 || !s.request->want.selected_keys,
              str(where, "its keys are wanted, which only the first replica tells"));
  const TokenId* tokens = plan.tokens.data() + slice.token_begin;
  const int size = static_cast<int>(s.tokens.size());
  if (tokens[0] == kPendingToken) {
    place.first = size - 1;
    GLINT_CHECK(place.num_known == 1 && place.first <= slice.first && s.num_computed == size - 1,
                str(where, "a pending token at ", slice.first, ", but the sequence is at ",
                    s.num_computed, " of ", size));
  }
  for (int i = 0; i < place.num_known && tokens[0] != kPendingToken; ++i) {
    const int position = place.first + i;
    GLINT_CHECK(position < size && tokens[i] == s.tokens[static_cast<std::size_t>(position)],
                str(where, "another token at ", position));
  }
  for (int i = place.num_known; i < slice.count; ++i)
    GLINT_CHECK(tokens[i] == kPendingToken, str(where, "a draft that is known"));
  const int end = place.first + place.num_known;
  GLINT_CHECK(slice.sample == (end == size), str(where, "rows up to ", end, " of ", size));
  GLINT_CHECK(slice.num_drafts == 0 || (s.has_drafts && place.first == s.num_computed),
              str(where, "there are no drafts to verify"));
  GLINT_CHECK(slice.num_pages * options.page_size >= slice.first + slice.count,
              str(where, slice.num_pages, " pages for ", slice.first + slice.count, " rows"));
  for (int i = 0; i < slice.num_pages; ++i) {
    GLINT_CHECK(place.pages[i] >= 0 && place.pages[i] < options.num_pages,
                str(where, "page ", place.pages[i]));
  }
  return place;
}

void FakeExecutor::State::check_memory(const FakeSequence& s, const Place& place) const {
  for (int i = 0; i < place.first; ++i) {
    const auto index = static_cast<std::size_t>(i);
    const std::size_t at = slot(place, i);
    GLINT_CHECK(memory[at] == s.rows[index],
                str("request ", s.request->id, ": position ", i, " of ", place.first,
                    " holds another row (page ", place.pages[i / options.page_size], ")"));
    if (options.info.max_drafts == 0) continue;
    GLINT_CHECK(
        draft_memory[at] == mix(s.rows[index], static_cast<std::uint64_t>(s.tokens[index + 1])),
        str("request ", s.request->id, ": position ", i, " holds another draft row"));
  }
}

// Computes the row of `token` from the row before it in the memory, and keeps it there.
std::uint64_t FakeExecutor::State::write_row(const Place& place, const FakeSequence& s,
                                             int position, TokenId token) {
  if (!options.check_rows) {
    return mix(position == 0 ? weights : s.rows[static_cast<std::size_t>(position - 1)],
               static_cast<std::uint64_t>(token));
  }
  const std::uint64_t before = position == 0 ? weights : memory[slot(place, position - 1)];
  return memory[slot(place, position)] = mix(before, static_cast<std::uint64_t>(token));
}

// Whether the request ends with its last token, and how.
bool FakeExecutor::State::ends(const Request& request, const FakeSequence& s,
                               StepResult::Sampled& result) {
  const int answered = static_cast<int>(s.tokens.size()) - s.prompt_size();
  if (answered > request.min_tokens && contains(request.stop_ids, s.tokens.back())) {
    result.finished = FinishReason::kStop;
    result.stop_id = s.tokens.back();
  } else if (answered >= request.max_tokens) {
    result.finished = FinishReason::kLength;
  }
  return result.finished.has_value();
}

// The new token after the last known row, and those after accepted drafts.
void FakeExecutor::State::sample(const SeqSlice& slice, const Place& place, FakeSequence& s,
                                 StepResult::Sampled& result) {
  const Request& request = *s.request;
  const int top = request.want.top_logprobs;
  int position = place.first + place.num_known - 1;
  std::uint64_t row = options.check_rows ? memory[slot(place, position)] : s.rows.back();
  result.drafted = slice.num_drafts;
  bool accepted = true;
  for (int i = 0; i <= slice.num_drafts; ++i, ++position) {
    const TokenId token = choose(request, s.script, row, position + 1 - s.prompt_size());
    if (accepted && static_cast<int>(result.tokens.size()) < slice.max_new) {
      s.append(token, weights);
      result.tokens.push_back(token);
      if (top >= 0) result.logprobs.push_back(fake_logprob(token, top, options.info.vocab_size));
      accepted = !ends(request, s, result);
    } else {
      accepted = false;
    }
    if (i == slice.num_drafts) break;
    const bool right = !options.draft_is_right || options.draft_is_right(request.id, position + 1);
    const TokenId draft = right ? token : (token + 1) % options.info.vocab_size;
    accepted = accepted && right;
    // Rows of wrong drafts are written too, as a real model does.
    if (accepted || options.check_rows) row = write_row(place, s, position + 1, draft);
    if (!accepted && !options.check_rows) break;
  }
}

void FakeExecutor::State::write_draft_rows(const SeqSlice& slice, const Place& place,
                                           const FakeSequence& s) {
  for (int i = place.first; i < place.first + slice.count; ++i) {
    const auto next = static_cast<std::size_t>(i + 1);
    draft_memory[slot(place, i)] =
        next < s.tokens.size() ? mix(s.rows[next - 1], static_cast<std::uint64_t>(s.tokens[next]))
                               : 0;
  }
}

// Covers only rows not reported before: a preempted sequence runs rows again.
Extras FakeExecutor::State::extras(const Place& place, FakeSequence& s) const {
  Extras result;
  const Want& want = s.request->want;
  const ExecutorInfo& info = options.info;
  const int end = s.num_computed;  // rejected drafts have no rows
  for (int row = std::max(place.first, s.num_told); row < end; ++row) {
    if (want.prompt_logprobs >= 0 && row + 1 < s.prompt_size()) {
      result.prompt_logprobs.push_back(fake_logprob(s.tokens[static_cast<std::size_t>(row + 1)],
                                                    want.prompt_logprobs, info.vocab_size));
    }
    for (int i = 0; want.routed_experts && i < info.num_moe_layers * info.num_experts_per_tok; ++i)
      result.routed_experts.push_back(static_cast<std::uint16_t>((row + i) % info.num_experts));
    for (int i = 0; want.selected_keys && row + 1 == s.prompt_size() && i <= std::min(row, 7); ++i)
      result.selected_keys.push_back({.position = row - i, .num_layers = 1 + i});
  }
  s.num_told = std::max(s.num_told, end);
  return result;
}

StepResult::Sampled FakeExecutor::State::run(const StepPlan& plan, const SeqSlice& slice) {
  const auto found = sequences.find(slice.id);
  GLINT_CHECK(found != sequences.end(), str("request ", slice.id, " was never started"));
  FakeSequence& s = found->second;
  const Place place = locate(plan, slice, s);
  StepResult::Sampled result = {.id = slice.id};
  if (options.check_rows) check_memory(s, place);
  for (int i = place.first; i < place.first + place.num_known; ++i) {
    write_row(place, s, i, s.tokens[static_cast<std::size_t>(i)]);
    if (options.fails && options.fails(slice.id, i)) result.failure = SliceFailure::kNotNumbers;
  }
  const bool late =
      slice.sample && options.late && options.late(slice.id, static_cast<int>(s.tokens.size()));
  if (late) result.late = ++s.num_late;
  if (slice.sample && !late) sample(slice, place, s, result);
  if (options.check_rows && options.info.max_drafts > 0) write_draft_rows(slice, place, s);
  s.num_computed =
      slice.sample ? static_cast<int>(s.tokens.size()) - 1 : place.first + place.num_known;
  s.has_drafts = slice.sample;
  result.extras = extras(place, s);
  if (result.failure != SliceFailure::kNone) result.tokens.clear(), result.logprobs.clear();
  return result;
}

FakeExecutor::FakeExecutor(FakeExecutorOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}
FakeExecutor::~FakeExecutor() = default;

const ExecutorInfo& FakeExecutor::info() const { return state_->options.info; }

void FakeExecutor::launch(std::shared_ptr<const StepPlan> plan) {
  GLINT_CHECK(num_launched() < info().depth, str(num_launched(), " steps are launched already"));
  const std::chrono::duration<double> seconds(state_->seconds_of(*plan));
  auto& busy_until = state_->busy_until;
  busy_until = std::max(busy_until, std::chrono::steady_clock::now()) +
               std::chrono::duration_cast<std::chrono::nanoseconds>(seconds);
  state_->launched.push_back({std::move(plan), busy_until});
}

Result<StepResult> FakeExecutor::collect() {
  GLINT_CHECK(!state_->launched.empty(), "no step is launched");
  const State::Launched step = std::move(state_->launched.front());
  state_->launched.pop_front();
  if (state_->options.step_fails && state_->options.step_fails(step.plan->step)) {
    return unavailable(str("step ", step.plan->step, " was told to fail"));
  }
  if (state_->options.sleep) std::this_thread::sleep_until(step.end);
  return execute(*step.plan);
}

Status FakeExecutor::recover() {
  state_->launched.clear();
  std::fill(state_->memory.begin(), state_->memory.end(), 0);
  std::fill(state_->draft_memory.begin(), state_->draft_memory.end(), 0);
  return state_->options.recovers ? Status(Ok{}) : unavailable("no rank is left");
}

StepResult FakeExecutor::execute(const StepPlan& plan) {
  hanging_.wait(true);
  for (const auto& request : plan.started) {
    const bool is_new = state_->sequences.emplace(request->id, state_->start(request)).second;
    GLINT_CHECK(is_new, str("request ", request->id, " was started twice"));
  }
  for (const RequestId id : plan.ended) {
    GLINT_CHECK(state_->sequences.erase(id) == 1, str("request ", id, " ended unknown"));
  }
  StepResult result = {.sampled = {}, .seconds = state_->seconds_of(plan)};
  for (const SeqSlice& slice : plan.slices) {
    result.sampled.push_back(state_->run(plan, slice));
    rows_ += static_cast<std::uint64_t>(slice.count);
    if (const StepResult::Sampled& sampled = result.sampled.back(); sampled.late && wake_)
      wake_(slice.id, sampled.late);
  }
  ++steps_;
  return result;
}

Status FakeExecutor::control(const ExecutorCommand& command) {
  if (command.path.empty()) return invalid("the path is empty; name a checkpoint");
  state_->commands.push_back(command);
  if (command.kind != ExecutorCommand::Kind::kUpdateWeights) return Ok{};
  state_->weights = mix(state_->weights, state_->commands.size());
  for (auto& [id, sequence] : state_->sequences) {
    sequence.rows.clear();
    for (const TokenId token : std::exchange(sequence.tokens, {}))
      sequence.append(token, state_->weights);
  }
  return Ok{};
}

void FakeExecutor::set_wake(Wake wake) { wake_ = std::move(wake); }

std::string FakeExecutor::progress() const {
  return str("fake step ", steps_.load(), hanging_.load() ? ", hanging" : "");
}

std::vector<std::uint64_t> FakeExecutor::expert_load() const {
  const ExecutorInfo& info = state_->options.info;
  const auto experts = static_cast<std::size_t>(info.num_experts);
  if (experts == 0) return {};
  const std::uint64_t each =
      rows_.load() * static_cast<std::uint64_t>(info.num_experts_per_tok) / experts;
  return std::vector<std::uint64_t>(static_cast<std::size_t>(info.num_moe_layers) * experts, each);
}

std::vector<TokenId> FakeExecutor::answer_alone(const Request& request) const {
  FakeSequence s = state_->start(std::make_shared<const Request>(request));
  const ExecutorInfo& info = state_->options.info;
  const int limit = std::min({s.prompt_size() + request.max_tokens, info.max_seq_len,
                              state_->options.num_pages * state_->options.page_size});
  while (static_cast<int>(s.tokens.size()) < limit) {
    const int index = static_cast<int>(s.tokens.size()) - s.prompt_size();
    s.append(state_->choose(request, s.script, s.rows.back(), index), state_->weights);
    if (index >= request.min_tokens && contains(request.stop_ids, s.tokens.back())) break;
  }
  return {s.tokens.begin() + s.prompt_size(), s.tokens.end()};
}

void FakeExecutor::hang() { hanging_ = true; }
void FakeExecutor::resume() {
  hanging_ = false;
  hanging_.notify_all();
}

int FakeExecutor::num_launched() const { return static_cast<int>(state_->launched.size()); }
int FakeExecutor::num_known() const { return static_cast<int>(state_->sequences.size()); }
std::vector<ExecutorCommand> FakeExecutor::commands() const { return state_->commands; }

}  // namespace glint
