#include "engine/step_runner.h"

#include <optional>
#include <utility>

namespace glint {

StepRunner::StepRunner(Executor& executor, Watchdog& watchdog,
                       std::function<void(StepOutcome)> tell)
    : executor_(executor), watchdog_(watchdog), tell_(std::move(tell)) {
  thread_ = std::thread([this] { run(); });
}

StepRunner::~StepRunner() { close(); }

void StepRunner::close() {
  work_.close();
  if (thread_.joinable()) thread_.join();
}

void StepRunner::push(std::shared_ptr<const StepPlan> plan, std::uint64_t run) {
  work_.push(Step{std::move(plan), run});
}

void StepRunner::push(ExecutorCommand command) { work_.push(std::move(command)); }

void StepRunner::run() {
  // A stage that has nothing to do waits so long for a plan of what was collected last.
  constexpr double kPlanSeconds = 0.0002;
  const auto depth = static_cast<std::size_t>(executor_.info().depth);
  const auto stages = static_cast<std::size_t>(executor_.info().num_stages);
  for (;;) {
    std::optional<std::variant<Step, ExecutorCommand>> item;
    if (launched_.empty()) {
      if (!(item = work_.pop())) return;
    } else if (launched_.size() < depth) {
      item = work_.pop_for(launched_.size() < stages ? kPlanSeconds : 0);
    }
    if (!item) {
      collect();
    } else if (const auto* command = std::get_if<ExecutorCommand>(&*item)) {
      tell_(ControlDone{executor_.control(*command)});
    } else if (const auto& step = std::get<Step>(*item); step.run >= num_failures_) {
      launched_.push_back({step.plan, std::chrono::steady_clock::now()});
      if (launched_.size() == 1) watch_the_first();
      executor_.launch(step.plan);
    }
  }
}

void StepRunner::collect() {
  Result<StepResult> result = executor_.collect();
  const auto now = std::chrono::steady_clock::now();
  watchdog_.watch(nullptr, {});
  if (!result.ok()) {
    launched_.clear();
    tell_(StepsFailed{result.error(), executor_.recover()});
    ++num_failures_;
    return;
  }
  tell_(StepDone{.plan = std::move(launched_.front().plan),
                 .result = std::move(result).value(),
                 .begin = launched_.front().begin,
                 .end = now});
  launched_.pop_front();
  if (launched_.empty()) return;
  launched_.front().begin = now;
  watch_the_first();
}

void StepRunner::watch_the_first() {
  watchdog_.watch(launched_.front().plan, launched_.front().begin);
}

}  // namespace glint
