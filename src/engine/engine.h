// Engine: the loop that turns requests into tokens. One thread owns the scheduler; a second runs
// the executor, so that planning the next step and reporting the last one happen while a step
// runs; a third, the watchdog, looks whether a step takes too long.
//
//   submit(), abort() -> inbox -> engine thread: schedule -> executor thread: execute
//                                        ^------------ commit <----------'   -> sink
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/executor.h"
#include "engine/scheduler.h"
#include "engine/step_costs.h"

namespace glint {

struct EngineOptions {
  SchedulerConfig scheduler = {};
  KvCacheConfig cache = {};  // of each of the executor's replicas
  int max_waiting = 4096;    // requests beside max_running others; beyond this, submit() refuses
  // A step with prompt tokens may take this many times a plain decode step, or so many seconds if
  // that is longer. A slowdown of 0: no limit.
  double max_step_slowdown = 2, unseen_step_seconds = StepCosts::kUnseenSeconds;
  double watchdog_seconds = 300;  // a step that takes longer is a hang; 0: never
  // Sees how many tokens each step came to: those of prompts that it read, and those that it gave.
  // On the engine thread, as Sink.
  std::function<void(int tokens)> on_step = {};
  // Called once, from the watchdog's thread, with a dump of plan and last operation, after every
  // request was failed: the program should end. The engine cannot be destroyed before the step
  // returns.
  std::function<void(const std::string& dump)> on_hang = {};
};

// For metrics and admission: as of the last step, but for tokens_per_second. Counters are since the
// start.
struct EngineStats : SchedulerStats {
  int num_running = 0, num_waiting = 0;
  int used_pages = 0, total_pages = 0, page_size = 0;  // of all replicas
  int max_seq_len = 0;                // tokens of prompt and answer that a request may have here
  double step_seconds = 0;            // in the executor
  double overhead_seconds = 0;        // between steps, with work to do: what the host costs
  double tokens_per_second = 0;       // of answers, lately
  double predicted_wait_seconds = 0;  // until a request submitted now would start
  bool paused = false;
};

class Engine {
 public:
  // Sees the events of a step (of two, if steps are quicker than the engine), on the engine
  // thread: hand them on, do not work.
  using Sink = std::function<void(std::vector<TokenEvent> events)>;

  // `executor` outlives the engine.
  Engine(EngineOptions options, Executor& executor, Sink sink);
  // Cancels what is left (each gets its last event), joins.
  ~Engine();

  // All from any thread.

  // Fails at once, without an event, as Scheduler::add does, if it names tokens that the model does
  // not have, and with kUnavailable while draining. `admitted`: also if the queue is full.
  Status submit(Request request, bool admitted = false);
  // The request gets a last event, kCancelled, unless it has ended.
  void abort(RequestId id);

  // Between two steps, in order with the others; waits for it. After kUpdateWeights or kRecover,
  // done or failed, nothing of the old cache is used: running requests compute their tokens again.
  Status control(const ExecutorCommand& command);
  // Fails while requests run. Where these are paused, it waits for their steps in flight, and they
  // compute their tokens again.
  Status flush_cache();
  void pause();  // requests wait where they are
  void resume();

  // Refuses new requests from now on.
  void drain();

  EngineStats stats() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace glint
