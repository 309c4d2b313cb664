#include "server/generations.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <new>
#include <optional>

#include "base/contains.h"
#include "base/seconds.h"
#include "base/str.h"
#include "server/asked_numbers.h"

namespace glint {
namespace {

// For requests that were cancelled to end.
constexpr std::chrono::seconds kAbortTime(5);

const char* id_prefix(Api api) {
  switch (api) {
    case Api::kCompletions:
      return "cmpl-";
    case Api::kChat:
      return "chatcmpl-";
    case Api::kResponses:
      return "resp_";
    case Api::kMessages:
      return "msg_";
    case Api::kGenerate:
    case Api::kKeys:
      break;
  }
  return "gen-";
}

// Frees the fields that only preparing needed; they would be held in the queue and until the end.
void forget_prompt(ApiRequest& request) {
  if (request.chat) *request.chat = {};
  for (Prompt& prompt : request.prompts) prompt = {};
  request.tools.specs = {};
  request.bad_words = {};
  request.end.stop = {};
  request.end.stop_ids = {};
  request.grammar = {};
}

// The choice that has this id, of an answer that has several.
std::optional<std::size_t> choice_with(const std::string& id, const std::string& answer,
                                       std::size_t count) {
  if (count == 1 || !id.starts_with(answer)) return {};
  for (std::size_t i = 0; i < count; ++i)
    if (id == choice_id(answer, static_cast<int>(i))) return i;
  return {};
}

int experts_of_row(const ExecutorInfo& executor) {
  return executor.num_moe_layers * executor.num_experts_per_tok;
}

int event_threads(const ServerConfig& config) { return std::max(1, config.text_threads / 2); }

}  // namespace

int request_threads(const ServerConfig& config) {
  return std::max(1, config.text_threads - event_threads(config));
}

Generations::Generations(const ServerConfig& config, ServedModel model,
                         std::shared_ptr<Metrics> metrics, IdSource& ids, Observer observer)
    : config_(config),
      metrics_(std::move(metrics)),
      ids_(ids),
      executor_(model.executor),
      ranks_(std::move(model.ranks)),
      model_(std::move(model.tokenizer), std::move(model.chat_template), std::move(model.stop_ids),
             model.executor->info().vocab_size, config.grammars),
      names_(model_.tokenizer),
      services_{.model = model_,
                .names = names_,
                .metrics = *metrics_,
                .abort =
                    [this](RequestId id) {
                      if (!closing_) engine_->abort(id);
                    },
                .stopping = [this] { return stopping_.load(); },
                .done = std::move(observer)} {
  weights_.store("default");
  const int threads = event_threads(config);
  for (int i = 0; i < threads; ++i) event_threads_.push_back(std::make_shared<EventThread>());
  EngineOptions options = std::move(model.engine);
  options.scheduler.max_seq_len = config.max_model_len;
  options.on_step = [this](int tokens) { metrics_->step(tokens); };
  engine_ = std::make_unique<Engine>(
      std::move(options), *executor_,
      [this](std::vector<TokenEvent> events) { on_events(std::move(events)); });
  alive_thread_ = std::thread([this] { keep_streams_alive(); });
}

Generations::~Generations() {
  drain(0);
  {
    const std::lock_guard lock(mutex_);
    stop_alive_ = true;
    changed_.notify_all();
  }
  alive_thread_.join();
  // The engine's last events come while it is destroyed: they must not call it.
  closing_ = true;
  for (const std::shared_ptr<EventThread>& thread : event_threads_) {
    std::promise<void> idle;
    thread->tasks.post([&idle] { idle.set_value(); });
    idle.get_future().wait();
  }
  long_answers_.finish();
  engine_.reset();
  event_threads_.clear();
}

void Generations::on_events(std::vector<TokenEvent> events) {
  std::vector<std::vector<TokenEvent>> parts(event_threads_.size());
  for (TokenEvent& event : events) {
    const std::uint64_t number = Session::number_of(event.id);
    parts[number % event_threads_.size()].push_back(std::move(event));
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty()) continue;
    EventThread* thread = event_threads_[i].get();
    thread->tasks.post([this, thread, part = std::move(parts[i])]() mutable {
      for (TokenEvent& event : part) {
        const std::uint64_t number = Session::number_of(event.id);
        const auto found = thread->sessions.find(number);
        if (found == thread->sessions.end()) continue;
        const std::shared_ptr<Session> session = found->second;
        bool is_elsewhere = false;
        run_session(*session, [&](Session& one) {
          one.on_event(std::move(event));
          if (!one.awaits_telling()) return;
          long_answers_.post([this, number, session] { tell_long(*session, number); });
          is_elsewhere = true;
        });
        if (is_elsewhere) {
          thread->sessions.erase(number);
        } else if (session->done()) {
          forget(*thread, number);
        }
      }
    });
  }
}

void Generations::tell_long(Session& session, std::uint64_t number) {
  run_session(session, [this](Session& one) {
    if (!stopping_) return one.tell();
    one.fail(not_ready_error("draining"));
  });
  forget(number);
}

// Memory that runs out ends this session and no other.
void Generations::run_session(Session& session, const std::function<void(Session&)>& run) {
  try {
    run(session);
  } catch (const std::bad_alloc&) {
    session.give_up();
  }
}

// Sleeps while there is no request. A stream may be silent until the next look at most.
void Generations::keep_streams_alive() {
  const double between_looks = config_.keep_alive_seconds / 4, seconds = 2 * between_looks;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_alive_ || !live_.empty(); });
    const auto stopped = [this] { return stop_alive_; };
    if (changed_.wait_for(lock, std::chrono::duration<double>(between_looks), stopped)) return;
    lock.unlock();
    for (const std::shared_ptr<EventThread>& thread : event_threads_) {
      thread->tasks.post([this, thread = thread.get(), seconds] {
        std::vector<std::uint64_t> gone;
        for (const auto& [number, session] : thread->sessions) {
          run_session(*session, [&](Session& each) { each.keep_alive(seconds); });
          if (session->done()) gone.push_back(number);
        }
        for (const std::uint64_t number : gone) forget(*thread, number);
      });
    }
    lock.lock();
  }
}

void Generations::forget(EventThread& thread, std::uint64_t number) {
  thread.sessions.erase(number);
  forget(number);
}

void Generations::forget(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  live_.erase(number);
  changed_.notify_all();
}

ApiStatus Generations::check_model(const std::string& name) const {
  if (name.empty() || contains(config_.served_names, name)) return Ok{};
  return ApiError{.status = 404,
                  .message = str("The model ", quoted(name), " does not exist; this server has ",
                                 quoted(config_.served_names.front())),
                  .param = "model",
                  .code = "model_not_found"};
}

// Refuses what would wait too long, before work is put into it.
ApiStatus Generations::check_wait() const {
  if (config_.max_queue_seconds <= 0) return Ok{};
  const double wait = engine_->stats().predicted_wait_seconds;
  if (wait <= config_.max_queue_seconds) return Ok{};
  return ApiError{.status = 429,
                  .message = str("the server is busy: a request would wait about ",
                                 counted(static_cast<std::int64_t>(std::ceil(wait)), "second"),
                                 "; try again later"),
                  .code = "queue_full",
                  .retry_after = std::max(1.0, wait - config_.max_queue_seconds)};
}

void Generations::submit(std::vector<ApiRequest> requests, Reply reply) {
  if (ApiStatus status = check_wait(); !status.ok()) return reply.fail(status.error());
  std::vector<Prepared> all;
  AskedNumbers asked;
  const int row_experts = experts_of_row(executor_->info());
  for (ApiRequest& request : requests) {
    Result<Prepared, ApiError> prepared = prepare_for(request, requests.front(), reply);
    if (!prepared.ok()) return reply.fail(prepared.error());
    asked.add(request, prepared.value(), row_experts);
    all.push_back(std::move(prepared).value());
  }
  if (ApiStatus status = asked.check(requests.front().api); !status.ok())
    return reply.fail(status.error());
  const bool is_list = requests.front().api == Api::kGenerate && requests.front().batch;
  std::vector<Reply> replies = is_list ? reply.split(all.size()) : std::vector{std::move(reply)};
  const auto admitted = std::make_shared<std::atomic<bool>>(false);
  for (std::size_t i = 0; i < all.size(); ++i)
    begin(std::move(requests[i]), std::move(all[i]), std::move(replies[i]), admitted);
}

Result<Prepared, ApiError> Generations::prepare_for(ApiRequest& request, const ApiRequest& first,
                                                    const Reply& reply) {
  GLINT_TRY_STATUS(check_model(request.model));
  if (Status status = encode_bad_words(request, first, model_); !status.ok())
    return api_error(status.error());
  if (request.model.empty()) request.model = config_.served_names.front();
  if (reply.context().want_timings) request.form.return_timings = true;
  request.turn.cancelled = [&reply] { return reply.gone(); };
  auto prepared =
      prepare(request, model_, config_, ids_.number(), experts_of_row(executor_->info()));
  request.turn.cancelled = {};
  return prepared;
}

void Generations::begin(ApiRequest request, Prepared prepared, Reply reply,
                        std::shared_ptr<std::atomic<bool>> admitted) {
  const ExecutorInfo& executor = executor_->info();
  ResponseInfo info = {
      .id = request.turn.id.empty() ? id_prefix(request.api) + ids_.hex(24) : request.turn.id,
      .request_id = reply.context().request_id,
      .created = unix_seconds(),
      .model = request.model,
      .num_layers = executor.num_layers,
      .experts_per_token = executor.num_experts_per_tok,
      .moe_layers = executor.moe_layers,
      .weights = &weights_};
  const Live live = {.id = info.id,
                     .rid = request.turn.rid,
                     .request_id = reply.context().request_id,
                     .aborted = std::make_shared<Aborted>(prepared.requests.size())};
  const std::shared_ptr<const GrammarSpec> spec = request.grammar;
  const std::string field = prepared.needs_grammar ? grammar_field(request) : "";
  const auto ready =
      std::make_shared<Ready>(Ready{.number = 0,
                                    .prepared = {.requests = std::move(prepared.requests),
                                                 .needs_grammar = prepared.needs_grammar,
                                                 .after_reasoning = prepared.after_reasoning,
                                                 .forbid_calls = prepared.forbid_calls,
                                                 .thinking_budget = prepared.thinking_budget,
                                                 .thinking = std::move(prepared.thinking)},
                                    .reply = std::move(reply),
                                    .aborted = live.aborted,
                                    .admitted = std::move(admitted)});
  const std::uint64_t number = ready->number = remember(live);
  guard_memory(*ready, [&] {
    forget_prompt(request);
    auto session = std::make_shared<Session>(number, std::move(request), std::move(prepared),
                                             std::move(info), ready->reply, services_);
    // Added before the engine knows of it: its first event comes after this. Before its grammar is
    // there, too: a stream that waits for it says so.
    add_session(thread_of(number), number, std::move(session), ready->reply);
    if (!ready->prepared.needs_grammar) return run_requests(*ready);
    compile_grammar(ready, *spec, field);
  });
}

// Memory that runs out in `run` ends this request and no other.
void Generations::guard_memory(const Ready& ready, const std::function<void()>& run) {
  try {
    run();
  } catch (const std::bad_alloc&) {
    EventThread* const thread = thread_of(ready.number).get();
    thread->tasks.post([this, thread, number = ready.number] {
      end_session(*thread, number, [](Session& session) { session.fail(out_of_memory_error()); });
      forget(*thread, number);
    });
    Reply(ready.reply).fail(out_of_memory_error());  // if the session was not there yet
  }
}

// It goes on when the grammar is there; meanwhile it takes no thread.
void Generations::compile_grammar(const std::shared_ptr<Ready>& ready, const GrammarSpec& spec,
                                  const std::string& field) {
  const auto gone = [ready] { return ready->reply.gone() || all_aborted(*ready->aborted); };
  const auto done = [this, ready, field](GrammarService::Grammar grammar) {
    ready->reply.guard(
        [&] { guard_memory(*ready, [&] { take_grammar(*ready, std::move(grammar), field); }); });
  };
  const std::string& peer = ready->reply.context().peer;
  model_.grammars->compile(spec, gone, done, peer.substr(0, peer.rfind(':')));
}

void Generations::take_grammar(Ready& ready, GrammarService::Grammar grammar,
                               const std::string& field) {
  if (grammar.ok()) {
    ready.prepared.grammar = std::move(grammar).value();
    return run_requests(ready);
  }
  if (ready.reply.gone())
    return end_session(ready.number, [](Session& session) { session.disconnect(); });
  const ApiError error = all_aborted(*ready.aborted)
                             ? ApiError{.status = 503, .message = "the request is aborted"}
                             : grammar_error(grammar.error(), field);
  end_session(ready.number, [error](Session& session) { session.fail(error); });
}

void Generations::run_requests(Ready& ready) {
  const std::uint64_t number = ready.number;
  std::vector<Request> requests = std::move(ready.prepared.requests);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].id = Session::id_of(number, i);
    requests[i].constraint = constraint_of(ready.prepared, model_, i);
  }
  for (Request& one : requests) {
    Status status = engine_->submit(std::move(one), *ready.admitted);
    if (status.ok()) {
      *ready.admitted = true;
      continue;
    }
    ApiError error = api_error(status.error());
    if (error.status == 429)
      error.retry_after = std::max(1.0, engine_->stats().predicted_wait_seconds);
    end_session(number, [error](Session& session) { session.fail(error); });
    break;
  }
  // A client that vanished, or was aborted, in between left some of its choices running.
  for (std::size_t i = 0; i < requests.size(); ++i)
    if ((*ready.aborted)[i]) services_.abort(Session::id_of(number, i));
  EventThread* const thread = thread_of(number).get();
  thread->tasks.post([this, thread, number, count = requests.size()] {
    if (thread->sessions.contains(number)) return;
    for (std::size_t i = 0; i < count; ++i) services_.abort(Session::id_of(number, i));
  });
}

std::uint64_t Generations::remember(Live live) {
  const std::lock_guard lock(mutex_);
  live_[next_number_] = std::move(live);
  changed_.notify_all();
  return next_number_++;
}

void Generations::add_session(const std::shared_ptr<EventThread>& thread, std::uint64_t number,
                              std::shared_ptr<Session> session, Reply reply) {
  thread->tasks.post([this, thread = thread.get(), number, session = std::move(session), reply,
                      weak = std::weak_ptr<EventThread>(thread)]() mutable {
    thread->sessions[number] = std::move(session);
    reply.on_disconnect([this, weak, number] {
      const std::shared_ptr<EventThread> alive = weak.lock();
      if (!alive) return;
      alive->tasks.post([this, thread = alive.get(), number] {
        end_session(*thread, number, [](Session& session) { session.disconnect(); });
      });
    });
  });
}

void Generations::end_session(EventThread& thread, std::uint64_t number,
                              const std::function<void(Session&)>& end) {
  const auto found = thread.sessions.find(number);
  if (found == thread.sessions.end()) return;
  run_session(*found->second, end);
  forget(thread, number);
}

void Generations::end_session(std::uint64_t number, std::function<void(Session&)> end) {
  EventThread* const thread = thread_of(number).get();
  thread->tasks.post(
      [this, thread, number, end = std::move(end)] { end_session(*thread, number, end); });
}

bool Generations::all_aborted(const Aborted& aborted) {
  return std::ranges::all_of(aborted, [](const std::atomic<bool>& one) { return one.load(); });
}

void Generations::abort_live(std::uint64_t number, const Live& live) {
  for (std::size_t i = 0; i < live.aborted->size(); ++i) abort_choice(number, live, i);
}

void Generations::abort_choice(std::uint64_t number, const Live& live, std::size_t choice) {
  (*live.aborted)[choice] = true;
  engine_->abort(Session::id_of(number, choice));
}

int Generations::abort(const std::string& id) {
  const std::lock_guard lock(mutex_);
  int count = 0;
  for (const auto& [number, live] : live_) {
    const std::optional<std::size_t> choice = choice_with(id, live.id, live.aborted->size());
    if (id.empty() || id == live.id || id == live.rid || id == live.request_id) {
      abort_live(number, live);
    } else if (choice) {
      abort_choice(number, live, *choice);
    } else {
      continue;
    }
    ++count;
  }
  return count;
}

void Generations::abort_all() {
  std::unique_lock lock(mutex_);
  const std::uint64_t next = next_number_;
  for (const auto& [number, live] : live_) abort_live(number, live);
  changed_.wait_for(lock, kAbortTime,
                    [&] { return live_.empty() || live_.begin()->first >= next; });
}

int Generations::num_live() {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(live_.size());
}

int Generations::drain(double seconds) {
  engine_->drain();
  engine_->resume();  // what is paused would never end
  model_.grammars->close();
  std::unique_lock lock(mutex_);
  const auto empty = [this] { return live_.empty(); };
  if (changed_.wait_for(lock, std::chrono::duration<double>(seconds), empty)) return 0;
  stopping_ = true;
  const int left = static_cast<int>(live_.size());
  for (const auto& [number, live] : live_) abort_live(number, live);
  // The engine answers between two steps; it may also be paused or hang.
  changed_.wait_for(lock, kAbortTime, empty);
  return left;
}

}  // namespace glint
