#include "server/task_threads.h"

namespace glint {

TaskThreads::TaskThreads(int num_threads) {
  const auto work = [this] {
    while (std::optional<std::function<void()>> task = tasks_.pop()) {
      --num_queued_;
      (*task)();
    }
  };
  for (int i = 0; i < num_threads; ++i) threads_.emplace_back(work);
}

TaskThreads::~TaskThreads() {
  tasks_.close();
  for (std::thread& thread : threads_) thread.join();
}

void TaskThreads::post(std::function<void()> task) {
  ++num_queued_;
  if (!tasks_.push(std::move(task))) --num_queued_;
}

}  // namespace glint
