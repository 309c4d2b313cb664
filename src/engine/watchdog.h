// Watchdog: a thread that tells when one step has run for too long.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <variant>

#include "base/queue.h"
#include "engine/step_plan.h"

namespace glint {

class Watchdog {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Calls `on_hang` at most once, on its own thread, with the plan of a step that has run for
  // `limit` seconds or more. 0: no thread, and no call.
  Watchdog(double limit, std::function<void(const StepPlan&, double seconds)> on_hang);
  // Waits for a call that has begun.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // The step that runs from now on; null: none does. From any thread.
  void watch(std::shared_ptr<const StepPlan> plan, Time begin);

 private:
  struct Step {
    std::shared_ptr<const StepPlan> plan;
    Time begin;
  };

  void run();

  const double limit_;
  const std::function<void(const StepPlan&, double seconds)> on_hang_;
  Guarded<Step> step_;
  Queue<std::monostate> stop_;
  std::thread thread_;
};

}  // namespace glint
