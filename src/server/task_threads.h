// TaskThreads: a few threads that run tasks in the order in which they were posted. With one thread
// the tasks run one after another: what it owns needs no lock.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace glint {

class TaskThreads {
 public:
  explicit TaskThreads(int num_threads);
  // Runs what was posted, then joins. Tasks posted meanwhile run as well.
  ~TaskThreads();
  TaskThreads(const TaskThreads&) = delete;
  TaskThreads& operator=(const TaskThreads&) = delete;

  void post(std::function<void()> task);
  std::size_t num_queued() const;

 private:
  void work();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace glint
