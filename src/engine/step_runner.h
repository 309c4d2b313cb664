// StepRunner: the thread that drives an Executor. It launches steps up to the executor's depth,
// collects them in order, recovers after a failure, and runs commands between steps.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <variant>

#include "base/queue.h"
#include "engine/executor.h"
#include "engine/step_plan.h"
#include "engine/watchdog.h"

namespace glint {

struct StepDone {
  using Time = std::chrono::steady_clock::time_point;

  std::shared_ptr<const StepPlan> plan;
  StepResult result = {};
  Time begin = {}, end = {};  // launched, and the step before it collected; collected
};
// Every step of the present run is lost.
struct StepsFailed {
  Error error;
  Status recovered;
};
struct ControlDone {
  Status status;
};
using StepOutcome = std::variant<StepDone, StepsFailed, ControlDone>;

class StepRunner {
 public:
  // `tell` is called on the runner's thread with what came of each step and command, in order.
  StepRunner(Executor& executor, Watchdog& watchdog, std::function<void(StepOutcome)> tell);
  ~StepRunner();
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  // `run`: how many failures the caller has been told of. A step that was pushed before it could
  // know of one is dropped.
  void push(std::shared_ptr<const StepPlan> plan, std::uint64_t run);
  // Only while no step is on its way.
  void push(ExecutorCommand command);
  // Waits until all that was pushed is done; nothing is told after it returns.
  void close();

 private:
  struct Step {
    std::shared_ptr<const StepPlan> plan;
    std::uint64_t run = 0;
  };
  struct Launched {
    std::shared_ptr<const StepPlan> plan;
    StepDone::Time begin;
  };

  void run();
  void collect();
  void watch_the_first();

  Executor& executor_;
  Watchdog& watchdog_;
  const std::function<void(StepOutcome)> tell_;
  Queue<std::variant<Step, ExecutorCommand>> work_;
  std::deque<Launched> launched_;
  std::uint64_t num_failures_ = 0;
  std::thread thread_;
};

}  // namespace glint
