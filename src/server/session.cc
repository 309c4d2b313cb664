#include "server/session.h"

#include <algorithm>
#include <exception>

#include "base/contains.h"
#include "server/asked_numbers.h"

namespace glint {
namespace {

constexpr std::size_t kMaxUnsent = std::size_t{16} << 10;

// A stream of /generate repeats its log-probabilities in each piece: pieces come the more seldom,
// the more these are, so that no token costs more than so many.
constexpr std::int64_t kMostRepeatedPerToken = 512;

void append_merged(std::vector<Delta>& all, std::vector<Delta> more) {
  for (Delta& delta : more) add_delta(all, std::move(delta));
}

}  // namespace

Session::Session(std::uint64_t number, ApiRequest request, Prepared prepared, ResponseInfo info,
                 Reply reply, const SessionServices& services)
    : number_(number),
      request_(std::move(request)),
      prepared_(std::move(prepared)),
      reply_(std::move(reply)),
      services_(services),
      id_(info.id),
      row_experts_(info.moe_layers.size() * static_cast<std::size_t>(info.experts_per_token)) {
  writer_ = make_writer(request_, std::move(info), services_.names);
  answer_.prompts = std::move(prepared_.prompts);
  answer_.prompt_texts = std::move(prepared_.prompt_texts);
  for (const std::vector<TokenId>& prompt : answer_.prompts)
    answer_.usage.prompt_tokens += static_cast<int>(prompt.size());
  num_open_ = static_cast<int>(answer_.prompts.size()) * request_.best_of;
  for (int i = 0; i < num_open_; ++i) {
    answer_.choices.push_back({.index = i, .prompt = i / request_.best_of});
    states_.push_back(
        {.parser = std::make_unique<DeltaParser>(services_.model.tokenizer, prepared_.deltas),
         .pending = {.choice = i}});
  }
}

void Session::on_event(TokenEvent event) {
  const std::size_t index = event.id - id_of(number_, 0);
  if (done_ || index >= states_.size() || states_[index].finished) return;
  ChoiceState& state = states_[index];
  Choice& choice = answer_.choices[index];
  take_extras(choice, event);
  count_cached(choice, event.usage);
  if (!event.tokens.empty()) {
    reply_.set_begun();
    const double now = reply_.context().seconds();
    if (first_token_s_ == 0) {
      first_token_s_ = now;
      services_.metrics.first_token(now);
    }
    if (state.last_token_s > 0) services_.metrics.token_gap(now - state.last_token_s);
    state.last_token_s = now;
    take_tokens(state, choice, event);
  }
  if (event.finished) {
    if (event.unavailable) return fail(api_error(unavailable(event.error)));
    if (*event.finished == FinishReason::kError)
      return fail({.status = event.impossible ? 400 : 500,
                   .message = event.error.empty() ? "the request failed" : event.error,
                   .code = event.impossible ? "" : "engine_error"});
    if (*event.finished == FinishReason::kCancelled)
      if (const std::optional<ApiError> error = error_of_abort(state))
        return fail_as(FinishReason::kCancelled, *error);
    finish_choice(state, choice, event);
  }
  last_ = index;
  awaits_telling_ = !done_ && num_open_ == 0 && num_numbers() > kMostNumbersAtOnce;
  if (awaits_telling_) return;
  tell();
}

// Log-probabilities and experts that are still to be written: most of a large answer.
std::int64_t Session::num_numbers() const {
  const TokenFacts& facts = request_.facts;
  const bool is_sent =
      request_.form.stream && (request_.api == Api::kChat || request_.api == Api::kCompletions);
  if (is_sent) return std::ssize(states_[last_].pending.scores) * (facts.top_logprobs + 1);
  std::int64_t count = 0;
  for (const Choice& choice : answer_.choices) {
    count += std::ssize(choice.scores) * (facts.top_logprobs + 1) +
             std::ssize(choice.prompt_scores) * (facts.prompt_logprobs + 1) +
             std::ssize(choice.routed_experts);
  }
  return count;
}

void Session::tell() {
  ChoiceState& state = states_[last_];
  if (request_.form.stream) send(static_cast<int>(last_), state, state.finished);
  if (!done_ && num_open_ == 0) complete();
}

// Nothing: the abort ends the answer, which says so.
std::optional<ApiError> Session::error_of_abort(const ChoiceState& state) const {
  if (state.parser->stopped()) return {};
  if (services_.stopping() && !reply_.has_begun()) return not_ready_error("draining");
  // These APIs have no word for an answer that was cut by somebody else.
  const bool has_word = request_.api != Api::kMessages && request_.api != Api::kResponses;
  if (has_word) return {};
  return ApiError{.status = 503, .message = "the request was aborted", .retry_after = 1};
}

// Token by token, so that where an answer ends does not depend on how many came at once.
void Session::take_tokens(ChoiceState& state, Choice& choice, const TokenEvent& event) {
  for (std::size_t i = 0; i < event.tokens.size() && !state.stopping; ++i) {
    const TokenId token = event.tokens[i];
    if (prepared_.hide_answer) continue;
    ++answer_.usage.completion_tokens;
    choice.tokens.push_back(token);
    state.pending.tokens.push_back(token);
    const bool is_stop = event.stop_id && i + 1 == event.tokens.size();
    const bool shown = !is_stop || request_.end.include_stop;
    bool of_content = state.parser->in_content();
    if (shown) append_merged(state.pending.deltas, state.parser->feed({&token, 1}));
    of_content = of_content && state.parser->in_content();
    // OpenAI's log-probabilities go with the text; who reads token ids wants one for each of them.
    const bool by_ids = request_.api == Api::kGenerate || request_.form.return_token_ids ||
                        request_.form.tokens_as_ids;
    if (i < event.logprobs.size() && (shown || by_ids)) {
      choice.scores.push_back(
          {.id = token, .logprob = event.logprobs[i], .of_content = of_content});
      if (request_.form.stream) state.pending.scores.push_back(choice.scores.back());
    }
    if (state.parser->stopped()) {
      state.stopping = true;
      services_.abort(event.id);
    }
  }
  const int reasoning = state.parser->num_reasoning_tokens();
  answer_.reasoning_tokens += reasoning - choice.reasoning_tokens;
  choice.reasoning_tokens = reasoning;
}

// Choices of one prompt read it once.
void Session::count_cached(Choice& choice, const TokenEvent::Usage& usage) {
  if (choice.index % request_.best_of == 0)
    answer_.usage.cached_tokens += usage.cached_tokens - choice.usage.cached_tokens;
  choice.usage.cached_tokens = usage.cached_tokens;
}

void Session::take_extras(Choice& choice, TokenEvent& event) {
  Extras& extras = event.extras;
  std::ranges::move(extras.prompt_logprobs, std::back_inserter(choice.prompt_scores));
  choice.routed_experts.insert(choice.routed_experts.end(), extras.routed_experts.begin(),
                               extras.routed_experts.end());
  if (!extras.selected_keys.empty()) choice.selected_keys = std::move(extras.selected_keys);
}

void Session::finish_choice(ChoiceState& state, Choice& choice, const TokenEvent& event) {
  const bool is_models = event.stop_id && contains(services_.model.stop_ids, *event.stop_id);
  append_merged(state.pending.deltas, state.parser->finish(prepared_.needs_grammar && !is_models));
  Finish finish = {.reason = *event.finished};
  if (state.parser->stopped()) {
    finish.reason = FinishReason::kStop;
    finish.stop_string = state.parser->stop_string();
    // Its step may have gone on behind it.
    const std::size_t rows =
        static_cast<std::size_t>(event.usage.completion_tokens) - choice.tokens.size();
    std::vector<std::uint16_t>& experts = choice.routed_experts;
    experts.resize(experts.size() - std::min(experts.size(), rows * row_experts_));
  } else if (event.stop_id) {
    finish.on_stop_token = true;
    if (!is_models) finish.stop_id = event.stop_id;
  }
  finish.called_tools =
      state.parser->num_tools() > 0 && request_.tools.choice != ToolUse::Choice::kNamed;
  choice.finish = finish;
  choice.usage = event.usage;
  state.pending.finish = std::move(finish);
  state.finished = true;
  --num_open_;
  TokenEvent::Usage& usage = answer_.usage;
  usage.drafted += event.usage.drafted;
  usage.accepted += event.usage.accepted;
  if (!request_.form.stream) {
    choice.parsed.add(state.pending.deltas);
    choice.deltas = std::exchange(state.pending.deltas, {});
  }
}

// The head goes out with the first piece, so that a request that fails before has its own status.
void Session::begin_stream(std::string& out) {
  if (streaming_) return;
  reply_.begin_events();
  streaming_ = true;
  writer_->begin(answer_, out);
}

void Session::keep_alive(double seconds) {
  if (done_ || !request_.form.stream || reply_.context().seconds() - last_write_s_ < seconds)
    return;
  std::string bytes;
  begin_stream(bytes);
  writer_->waiting(bytes);
  write(bytes);
}

// Sends what is pending once it is worth a piece.
void Session::send(int index, ChoiceState& state, bool now) {
  Piece& pending = state.pending;
  // Clients that asked for token ids get each as it comes, even one that ends inside a character.
  const bool wants_ids = request_.api == Api::kGenerate ||
                         (request_.api == Api::kCompletions && request_.form.return_token_ids);
  const bool has_news = !pending.deltas.empty() || (wants_ids && !pending.tokens.empty());
  const bool visible = has_news || pending.finish;
  const bool repeats = request_.api == Api::kGenerate;
  const std::int64_t repeated =
      repeats ? std::ssize(answer_.choices[static_cast<std::size_t>(index)].scores) *
                    (request_.facts.top_logprobs + 1)
              : 0;
  const std::int64_t interval =
      std::max<std::int64_t>(request_.form.stream_interval, repeated / kMostRepeatedPerToken);
  const bool enough = now || !state.sent || std::ssize(pending.tokens) >= interval;
  if (!visible || !enough) return;
  // A piece that holds all before it need not wait behind another one.
  if (repeats && !now && (reply_.num_unsent() > kMaxUnsent || repeated > kMostNumbersAtOnce))
    return;
  std::string bytes;
  begin_stream(bytes);
  answer_.choices[static_cast<std::size_t>(index)].parsed.add(pending.deltas);
  writer_->piece(pending, answer_, bytes);
  state.sent = true;
  pending = {.choice = index};
  if (!bytes.empty()) write(bytes);
}

void Session::write(const std::string& bytes) {
  last_write_s_ = reply_.context().seconds();
  if (!reply_.write(bytes)) disconnect();
}

// The n most likely of best_of, for each prompt.
void Session::keep_best() {
  std::vector<Choice> best;
  const auto per_prompt = request_.best_of;
  for (std::size_t first = 0; first < answer_.choices.size();
       first += static_cast<std::size_t>(per_prompt)) {
    const auto begin = answer_.choices.begin() + static_cast<std::ptrdiff_t>(first);
    std::stable_sort(begin, begin + per_prompt, [](const Choice& a, const Choice& b) {
      return a.mean_logprob() > b.mean_logprob();
    });
    std::move(begin, begin + request_.n, std::back_inserter(best));
  }
  for (std::size_t i = 0; i < best.size(); ++i) best[i].index = static_cast<int>(i);
  answer_.choices = std::move(best);
}

// The request is counted before the client sees the end.
void Session::complete() {
  if (reply_.gone()) return disconnect();
  std::string bytes;
  Json whole;
  if (request_.form.stream) {
    writer_->end(answer_, bytes);
  } else {
    if (request_.best_of > request_.n) keep_best();
    whole = writer_->whole(answer_);
  }
  end(200);
  if (!request_.form.stream) return reply_.respond(whole);
  reply_.finish(bytes);
}

void Session::fail(const ApiError& error) { fail_as(FinishReason::kError, error); }

void Session::fail_as(FinishReason reason, const ApiError& error) {
  if (done_) return;
  for (Choice& choice : answer_.choices) choice.finish.reason = reason;
  abort_rest();
  end(error.status, error.message);
  std::string event;
  if (request_.form.stream) writer_->error(error, event);
  reply_.fail(error, event);
}

void Session::give_up() noexcept {
  try {
    fail(out_of_memory_error());
  } catch (const std::exception&) {
    // A done session is forgotten, with the last handle of its answer, which is cut.
    done_ = true;
  }
}

void Session::disconnect() {
  if (done_) return;
  for (std::size_t i = 0; i < states_.size(); ++i)
    if (!states_[i].finished) answer_.choices[i].finish.reason = FinishReason::kCancelled;
  abort_rest();
  end(499);
}

void Session::abort_rest() {
  for (std::size_t i = 0; i < states_.size(); ++i)
    if (!states_[i].finished) services_.abort(id_of(number_, i));
}

void Session::end(int status, const std::string& error) {
  done_ = true;
  reply_.set_logged();
  RequestRecord record;
  record.id = id_;
  record.model = request_.model;
  record.status = status;
  record.error = error;
  record.usage = answer_.usage;
  record.n = request_.n;
  record.max_tokens = prepared_.max_tokens;
  record.temperature = request_.sampling.temperature;
  record.top_p = request_.sampling.top_p;
  record.stream = request_.form.stream;
  record.constrained = prepared_.constrained;
  for (const Choice& choice : answer_.choices) {
    record.finish_reasons.push_back(name_of(choice.finish.reason));
    record.answer_tokens.push_back(static_cast<int>(choice.tokens.size()));
    record.queue_s = std::max(record.queue_s, choice.usage.started_s);
    record.prefill_s =
        std::max(record.prefill_s, choice.usage.first_token_s - choice.usage.started_s);
    record.decode_s =
        std::max(record.decode_s, choice.usage.finished_s - choice.usage.first_token_s);
  }
  record.first_token_s = first_token_s_;
  record.total_s = reply_.context().seconds();
  services_.done(record, reply_.context(), answer_);
}

}  // namespace glint
