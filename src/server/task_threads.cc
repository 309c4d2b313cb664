#include "server/task_threads.h"

#include <exception>

#include "base/log.h"
#include "base/str.h"
#include "base/undo.h"

namespace glint {
namespace {

// A task answers for its own errors; what still comes here would end the program.
void run_task(const std::function<void()>& task) noexcept {
  try {
    task();
  } catch (const std::exception& thrown) {
    GLINT_LOG(kError, str("a task was given up: ", thrown.what()));
  }
}

}  // namespace

TaskThreads::TaskThreads(int num_threads) {
  const auto work = [this] {
    while (std::optional<std::function<void()>> task = tasks_.pop()) {
      --num_queued_;
      run_task(*task);
      task.reset();  // what it holds is free before the next one comes
    }
  };
  Undo undo([this] { finish(); });
  for (int i = 0; i < num_threads; ++i) threads_.emplace_back(work);
  undo.keep();
}

TaskThreads::~TaskThreads() { finish(); }

void TaskThreads::finish() {
  tasks_.close();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void TaskThreads::post(std::function<void()> task) {
  if (tasks_.push(std::move(task))) ++num_queued_;
}

}  // namespace glint
