// TaskThreads: a few threads that run tasks in the order in which they were posted. With one thread
// the tasks run one after another: what it owns needs no lock.
#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "base/queue.h"

namespace glint {

class TaskThreads {
 public:
  explicit TaskThreads(int num_threads);
  ~TaskThreads();
  TaskThreads(const TaskThreads&) = delete;
  TaskThreads& operator=(const TaskThreads&) = delete;

  void post(std::function<void()> task);
  // Runs what was posted, then joins. Tasks posted meanwhile and later are dropped.
  void finish();
  int num_queued() const { return num_queued_; }  // not begun yet

 private:
  Queue<std::function<void()>> tasks_;
  std::atomic<int> num_queued_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace glint
