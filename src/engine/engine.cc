#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <unordered_map>
#include <variant>

#include "base/check.h"
#include "base/queue.h"
#include "base/seconds.h"
#include "base/str.h"
#include "engine/pace.h"
#include "engine/step_costs.h"
#include "engine/step_runner.h"
#include "engine/watchdog.h"

namespace glint {
namespace {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

// Messages to the engine thread, from clients, the executor thread and the watchdog.
struct Submit {
  Request request;
  Time time;
};
struct Abort {
  RequestId id = 0;
};
struct Control {
  ExecutorCommand command;
  std::promise<Status> done;
};
struct Flush {
  std::promise<Status> done;
};
struct Pause {
  bool paused = false;
};
struct Wake {
  RequestId id = 0;
  std::uint64_t number = 0;
};
struct Hang {
  std::promise<void> failed;  // all requests
};
struct Stop {};
using Message = std::variant<Submit, Abort, Control, Flush, Pause, StepDone, StepsFailed,
                             ControlDone, Wake, Hang, Stop>;

// A request's times, for the seconds in TokenEvent::Usage.
struct Times {
  Time submitted;
  bool started = false;
  double started_s = 0, first_token_s = 0;
};

// Why nothing can run.
struct Failure {
  std::string message;
  bool recovers = false;  // perhaps, later
};

// Conditions of the engine thread.
struct State {
  bool control_running = false;  // a command is with the executor, or on its way to it
  bool paused = false;
  bool stopping = false;
  std::optional<Failure> failure = {};
};

// The part of each replica.
std::vector<StepShape> shapes_of(const StepPlan& plan, int num_replicas) {
  std::vector<StepShape> shapes(static_cast<std::size_t>(num_replicas));
  for (const SeqSlice& slice : plan.slices) {
    StepShape& shape = shapes[static_cast<std::size_t>(slice.replica)];
    (slice.decodes() ? shape.num_decoding : shape.prompt_tokens) +=
        slice.decodes() ? 1 : slice.count;
  }
  return shapes;
}

// The others wait for it.
const StepShape& largest(const std::vector<StepShape>& shapes) {
  return *std::max_element(shapes.begin(), shapes.end(), [](const auto& a, const auto& b) {
    return a.num_decoding + a.prompt_tokens < b.num_decoding + b.prompt_tokens;
  });
}

EngineOptions resolve(EngineOptions options, const ExecutorInfo& info) {
  SchedulerConfig& scheduler = options.scheduler;
  scheduler.max_seq_len = std::min(scheduler.max_seq_len, info.max_seq_len);
  scheduler.max_drafts = std::min(scheduler.max_drafts, info.max_drafts);
  scheduler.depth += info.depth - 1;
  scheduler.num_replicas = info.num_replicas;
  scheduler.num_stages = info.num_stages;
  if (info.max_drafts > 0) options.cache.match_next_token = true;
  return options;
}

}  // namespace

// Everything without a remark is the engine thread's alone.
struct Engine::Impl {
  Impl(EngineOptions engine_options, Executor& model_executor, Sink event_sink)
      : options(resolve(std::move(engine_options), model_executor.info())),
        executor(model_executor),
        sink(std::move(event_sink)),
        scheduler(options.scheduler, options.cache) {
    options.scheduler.max_seq_len = scheduler.max_seq_len();
    publish_stats();
    executor.set_wake([this](RequestId id, std::uint64_t number) { inbox.push(Wake{id, number}); });
    thread = std::thread([this] { run(); });
  }

  ~Impl() {
    inbox.push(Stop{});
    thread.join();
    runner.close();
    executor.set_wake({});
  }

  void run() {
    while (!(state.stopping && scheduler.idle() && !state.control_running)) {
      for (Message& message : inbox.pop_all()) std::visit([this](auto& m) { handle(m); }, message);
      answer_flushes();
      start_work();
      if (scheduler.num_in_flight() == 0) pace.rest();
      publish_stats();
      if (!events.empty()) sink(std::exchange(events, {}));
    }
    inbox.close();
    for (Message& message : inbox.pop_all()) std::visit([this](auto& m) { refuse(m); }, message);
    refuse_controls();
    if (!events.empty()) sink(std::exchange(events, {}));
  }

  void handle(Submit& submit) {
    const RequestId id = submit.request.id;
    times.emplace(id, Times{.submitted = submit.time});
    if (state.stopping) return cancel_unknown(id);
    if (state.failure) return report(failed({.id = id}));
    const Status status = scheduler.add(std::move(submit.request));
    GLINT_CHECK(status.ok(), str("a checked request is refused: ", status.error().message));
  }

  void handle(Abort& abort) {
    if (std::optional<TokenEvent> event = scheduler.abort(abort.id)) report(std::move(*event));
  }

  void handle(Control& control) { controls.push_back(std::move(control)); }

  void handle(Flush& flush) { flushes.push_back(std::move(flush)); }

  // While paused, once the steps in flight have ended.
  void answer_flushes() {
    if (state.paused && (state.control_running || scheduler.num_in_flight() > 0)) return;
    for (Flush& flush : std::exchange(flushes, {})) {
      if (state.paused) scheduler.preempt_all();
      if (scheduler.num_running() > 0) {
        flush.done.set_value(unavailable(str(counted(scheduler.num_running(), "running request"),
                                             "; flush the cache when there is none")));
        continue;
      }
      scheduler.flush_cache();
      flush.done.set_value(Ok{});
    }
  }

  void handle(Pause& pause) { state.paused = pause.paused; }

  void handle(StepDone& done) {
    const std::vector<StepShape> shapes = shapes_of(*done.plan, options.scheduler.num_replicas);
    if (!done.plan->slices.empty()) {  // the others only tell of ends
      costs.record(largest(shapes), done.result.seconds);
      stats.step_seconds += done.result.seconds;
    }
    const std::uint64_t generated_before = scheduler.stats().generated_tokens;
    const std::uint64_t read_before = scheduler.stats().read_prompt_tokens;
    for (TokenEvent& event : scheduler.commit(*done.plan, std::move(done.result)))
      report(std::move(event));
    const std::uint64_t generated = scheduler.stats().generated_tokens - generated_before;
    const std::uint64_t read = scheduler.stats().read_prompt_tokens - read_before;
    if (options.on_step && generated + read > 0)
      options.on_step(static_cast<int>(generated + read));
    Pace::Tokens tokens = {.generated = generated};
    for (const StepShape& shape : shapes)
      tokens.read += static_cast<std::uint64_t>(shape.prompt_tokens);
    stats.overhead_seconds += pace.step(done.begin, done.end, tokens);
  }

  void handle(StepsFailed& done) {
    ++run_number;
    scheduler.abandon_in_flight();
    scheduler.flush_cache();
    pace.rest();
    if (done.recovered.ok()) return state.failure.reset();
    fail_all({str(done.error.message, "; ", done.recovered.error().message), true});
  }

  void handle(ControlDone& done) {
    state.control_running = false;
    Control control = std::move(controls.front());
    controls.pop_front();
    const ExecutorCommand::Kind kind = control.command.kind;
    if (kind == ExecutorCommand::Kind::kUpdateWeights || kind == ExecutorCommand::Kind::kRecover) {
      scheduler.preempt_all();
      scheduler.flush_cache();
    }
    if (kind == ExecutorCommand::Kind::kRecover && done.status.ok()) state.failure.reset();
    control.done.set_value(std::move(done.status));
  }

  void handle(Wake& wake) { scheduler.wake(wake.id, wake.number); }

  void handle(Hang& hang) {
    fail_all({"the step that ran this request hung"});
    if (!events.empty()) sink(std::exchange(events, {}));
    hang.failed.set_value();
  }

  void fail_all(const Failure& failure) {
    state.failure = failure;
    for (const RequestId id : scheduler.alive()) report(failed(*scheduler.abort(id)));
  }

  TokenEvent failed(TokenEvent event) const {
    event.finished = FinishReason::kError;
    event.error = state.failure->message;
    event.unavailable = state.failure->recovers;
    return event;
  }

  void handle(Stop&) {
    state.stopping = true;
    draining.store(true);
    for (const RequestId id : scheduler.alive()) report(*scheduler.abort(id));
    if (!state.control_running) refuse_controls();
  }

  // After the end: what still came.
  void refuse(Submit& submit) {
    times.emplace(submit.request.id, Times{.submitted = submit.time});
    cancel_unknown(submit.request.id);
  }
  void refuse(Control& control) { controls.push_back(std::move(control)); }
  void refuse(Flush& flush) { flush.done.set_value(unavailable("the engine has stopped")); }
  void refuse(Hang& hang) { hang.failed.set_value(); }
  template <class Other>
  void refuse(Other&) {}

  void refuse_controls() {
    for (Control& control : controls) control.done.set_value(unavailable("the engine has stopped"));
    controls.clear();
  }

  // Ends a request that the scheduler never had.
  void cancel_unknown(RequestId id) { report({.id = id, .finished = FinishReason::kCancelled}); }

  // Hands out plans, up to the depth; or a command, once no plan is in flight.
  void start_work() {
    if (state.control_running) return;
    if (!controls.empty()) {
      if (scheduler.num_in_flight() > 0) return;
      state.control_running = true;
      runner.push(controls.front().command);
      return;
    }
    if (state.paused && !state.stopping) return;
    for (;;) {
      const int budget =
          costs.prompt_budget(scheduler.num_decoding(), options.max_step_slowdown,
                              options.unseen_step_seconds, options.scheduler.max_step_tokens);
      auto plan = std::make_shared<const StepPlan>(scheduler.schedule(budget));
      if (plan->empty()) return;
      note_started(*plan);
      runner.push(std::move(plan), run_number);
    }
  }

  void note_started(const StepPlan& plan) {
    const Time now = Clock::now();
    int count = 0;
    for (const auto& request : plan.started) {
      const auto found = times.find(request->id);
      if (found == times.end() || found->second.started) continue;  // told again after a failure
      found->second.started = true;
      found->second.started_s = seconds_between(found->second.submitted, now);
      ++count;
    }
    pace.started(count, scheduler.num_waiting() > 0);
  }

  // Adds the times to an event, and gathers it for the sink.
  void report(TokenEvent event) {
    const auto found = times.find(event.id);
    GLINT_CHECK(found != times.end(), str("an event of request ", event.id, ", which has ended"));
    Times& t = found->second;
    const double now_s = seconds_between(t.submitted, Clock::now());
    if (!event.tokens.empty() && t.first_token_s == 0) t.first_token_s = now_s;
    if (event.finished) {
      event.usage.started_s = t.started ? t.started_s : now_s;
      event.usage.first_token_s = t.first_token_s > 0 ? t.first_token_s : now_s;
      event.usage.finished_s = now_s;
      num_alive.fetch_sub(1);
      times.erase(found);
    }
    events.push_back(std::move(event));
  }

  void publish_stats() {
    static_cast<SchedulerStats&>(stats) = scheduler.stats();
    stats.num_running = scheduler.num_running();
    stats.num_waiting = scheduler.num_waiting();
    stats.used_pages = stats.total_pages = 0;
    for (int replica = 0; replica < options.scheduler.num_replicas; ++replica) {
      stats.used_pages += scheduler.cache(replica).num_used_pages();
      stats.total_pages += scheduler.cache(replica).num_pages();
    }
    stats.page_size = options.cache.page_size;
    stats.max_seq_len = scheduler.max_seq_len();
    stats.predicted_wait_seconds =
        pace.queue_seconds(stats.num_waiting, scheduler.num_waiting_tokens());
    stats.paused = state.paused;
    snapshot.store({stats, pace});
  }

  // --- Other threads ---

  void tell(StepOutcome outcome) {
    std::visit([this](auto& told) { inbox.push(std::move(told)); }, outcome);
  }

  void report_hang(const StepPlan& plan, double seconds) {
    const std::string dump = str("a step has run for ", seconds,
                                 " seconds, doing: ", executor.progress(), "\n", describe(plan));
    draining.store(true);
    Hang hang;
    std::future<void> reported = hang.failed.get_future();
    // The engine thread only waits for messages; if its sink hangs as well, we go on.
    if (inbox.push(std::move(hang))) reported.wait_for(std::chrono::seconds(5));
    if (options.on_hang) options.on_hang(dump);
  }

  EngineOptions options;  // read by all, written before the threads start
  Executor& executor;     // the runner's, but for info() and progress()
  const Sink sink;
  Scheduler scheduler;
  StepCosts costs;
  std::unordered_map<RequestId, Times> times;  // of requests whose last event was not sent
  std::vector<TokenEvent> events;              // for the sink
  std::deque<Control> controls;                // the first is with the executor while one runs
  std::vector<Flush> flushes;
  State state;
  std::uint64_t run_number = 0;  // failures so far
  Pace pace;
  EngineStats stats;

  // Shared by threads.
  Queue<Message> inbox;
  struct Snapshot {
    EngineStats stats;
    Pace pace;
  };
  Guarded<Snapshot> snapshot;
  std::atomic<bool> draining{false};
  std::atomic<int> num_alive{0};  // submitted, and without a last event
  Watchdog watchdog{options.watchdog_seconds,
                    [this](const StepPlan& plan, double s) { report_hang(plan, s); }};
  StepRunner runner{executor, watchdog, [this](StepOutcome outcome) { tell(std::move(outcome)); }};
  std::thread thread;
};

Engine::Engine(EngineOptions options, Executor& executor, Sink sink)
    : impl_(std::make_unique<Impl>(std::move(options), executor, std::move(sink))) {}
Engine::~Engine() = default;

Status Engine::submit(Request request, bool admitted) {
  Impl& e = *impl_;
  if (e.draining.load()) return unavailable("no new requests are taken: the engine is stopping");
  GLINT_TRY_STATUS(check_request(request, e.options.scheduler));
  const int vocab_size = e.executor.info().vocab_size;
  GLINT_TRY_STATUS(check_token_ids("the prompt", request.prompt, vocab_size));
  GLINT_TRY_STATUS(check_token_ids(request.sampling, vocab_size));
  if (request.want.selected_keys && !e.executor.info().tells_keys) {
    return unsupported(
        "attended positions are not told where ranks share layers or sequences; serve without --pp "
        "and --cp");
  }
  const int num_before = e.num_alive.fetch_add(1);
  if (num_before - e.options.max_waiting >= e.options.scheduler.max_running && !admitted) {
    e.num_alive.fetch_sub(1);
    return exhausted(
        str(counted(num_before, "request"), " running or waiting already; try again later"));
  }
  try {
    if (e.inbox.push(Submit{std::move(request), Clock::now()})) return Ok{};
  } catch (const std::bad_alloc&) {
    e.num_alive.fetch_sub(1);
    return unavailable("the server is out of memory for this request");
  }
  return unavailable("the engine has stopped");
}

void Engine::abort(RequestId id) { impl_->inbox.push(Abort{id}); }

Status Engine::control(const ExecutorCommand& command) {
  Control control = {.command = command, .done = {}};
  std::future<Status> done = control.done.get_future();
  if (!impl_->inbox.push(std::move(control))) return unavailable("the engine has stopped");
  return done.get();
}

Status Engine::flush_cache() {
  Flush flush;
  std::future<Status> done = flush.done.get_future();
  if (!impl_->inbox.push(std::move(flush))) return unavailable("the engine has stopped");
  return done.get();
}

void Engine::pause() { impl_->inbox.push(Pause{true}); }
void Engine::resume() { impl_->inbox.push(Pause{false}); }
void Engine::drain() { impl_->draining.store(true); }

EngineStats Engine::stats() const {
  Impl::Snapshot now = impl_->snapshot.load();
  now.stats.tokens_per_second = now.pace.generated_per_second(Clock::now());
  return std::move(now.stats);
}

}  // namespace glint
