#include "engine/watchdog.h"

#include <algorithm>
#include <utility>

#include "base/seconds.h"

namespace glint {

Watchdog::Watchdog(double limit, std::function<void(const StepPlan&, double seconds)> on_hang)
    : limit_(limit), on_hang_(std::move(on_hang)) {
  if (limit_ > 0) thread_ = std::thread([this] { run(); });
}

Watchdog::~Watchdog() {
  stop_.close();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::watch(std::shared_ptr<const StepPlan> plan, Time begin) {
  step_.store({.plan = std::move(plan), .begin = begin});
}

// A step's age is counted in the watchdog's own periods, so that the time in which the whole
// program stood still (SIGSTOP, a frozen container) is not held against the step.
void Watchdog::run() {
  const double period = std::min(1.0, limit_ / 4);
  std::shared_ptr<const StepPlan> watched;
  double seconds = 0;
  for (Time last = std::chrono::steady_clock::now();;) {
    stop_.pop_for(period);
    if (stop_.closed()) return;
    const Time now = std::chrono::steady_clock::now();
    const double passed = std::min(seconds_between(std::exchange(last, now), now), 2 * period);
    const Step step = step_.load();
    seconds = std::min(seconds_between(step.begin, now),
                       step.plan == watched ? seconds + passed : passed);
    watched = step.plan;
    if (step.plan == nullptr || seconds < limit_) continue;
    return on_hang_(*step.plan, seconds);
  }
}

}  // namespace glint
