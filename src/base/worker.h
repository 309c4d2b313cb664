// Worker: one thread that runs one job at a time beside its owner.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace glint {

class Worker {
 public:
  Worker() : thread_([this] { work(); }) {}
  ~Worker() {
    wait();
    change([this] { stop_ = true; });
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // From one thread. Begins `job`, after the one before it has ended.
  void start(std::function<void()> job) {
    wait();
    change([&] { job_ = std::move(job); });
  }

  // Until no job runs; what it wrote is visible then.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !job_; });
  }

 private:
  template <class Change>
  void change(Change&& change) {
    {
      const std::lock_guard lock(mutex_);
      change();
    }
    changed_.notify_all();
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stop_ || job_; });
      if (stop_) return;
      lock.unlock();
      job_();
      lock.lock();
      job_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> job_;  // null: idle
  bool stop_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace glint
