// ThreadPool: runs one function on a fixed set of threads, the caller among them, and waits for
// all: a phase.
//
// Made for work of microseconds: between phases the threads spin for some tens of microseconds and
// only then sleep, so a phase that follows soon costs well under a microsecond per thread; nothing
// is allocated. Where there are more threads than CPUs nobody spins.
//
// Results must not depend on the number of threads. The pool promises that every task runs exactly
// once and that all writes of a phase are visible after it; it is the caller's duty that no sum is
// split by thread.
//
// One phase at a time: a phase begun inside a phase, or from two threads at once, aborts.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/ceil_div.h"

namespace glint {

// CPUs that this process may use: its affinity mask, and the quota of its control group
// (containers), rounded up.
int available_cpus();

class ThreadPool {
 public:
  // `num_threads` >= 1, the caller counted: the pool starts num_threads - 1 of its own.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return num_threads_; }

  // fn(thread, num_threads) once on every thread; the caller is thread 0. Returns when all have
  // returned. If some of them threw, as where memory ends, the caller gets one of the exceptions
  // then; the pool goes on.
  template <class Fn>
  void parallel(Fn&& fn) {
    using Callable = std::remove_reference_t<Fn>;
    run_phase(
        {.call = [](void* callable, int thread,
                    int num_threads) { (*static_cast<Callable*>(callable))(thread, num_threads); },
         .callable = const_cast<void*>(static_cast<const void*>(&fn))});
  }

  // fn(task, thread) for every task in [0, num_tasks). Each thread gets one contiguous range, the
  // same whenever the counts are the same: for tasks of equal size, which then find their data in
  // the same core's cache.
  template <class Fn>
  void run(std::int64_t num_tasks, Fn&& fn) {
    parallel([&](int thread, int num_threads) {
      const std::int64_t end = num_tasks * (thread + 1) / num_threads;
      for (std::int64_t task = num_tasks * thread / num_threads; task < end; ++task)
        fn(task, thread);
    });
  }

  // run() with fn(begin, end) for blocks of [0, size).
  template <class Fn>
  void run_blocks(std::int64_t size, std::int64_t block, Fn&& fn) {
    run(ceil_div(size, block),
        [&](std::int64_t i, int) { fn(i * block, std::min(size, (i + 1) * block)); });
  }

  // As run(), but a thread takes the next task when it is done with one: for tasks of unequal size.
  template <class Fn>
  void run_dynamic(std::int64_t num_tasks, Fn&& fn) {
    next_task_.store(0, std::memory_order_relaxed);
    parallel([&](int thread, int) {
      for (;;) {
        const std::int64_t task = next_task_.fetch_add(1, std::memory_order_relaxed);
        if (task >= num_tasks) return;
        fn(task, thread);
      }
    });
  }

  struct Range {
    std::int64_t begin, end;
    bool empty() const { return begin == end; }
  };

  // As run_dynamic(), for tasks that lie one after another in memory: a thread takes a range of
  // them at a time, smaller and smaller, so that it reads on and on and yet all end together.
  // fn(range, next, thread): with the range that the thread goes on with, empty at the end, so that
  // what it needs can be fetched from memory meanwhile.
  template <class Fn>
  void run_ranges(std::int64_t num_tasks, Fn&& fn) {
    const std::int64_t share = share_of(num_tasks);
    next_task_.store(std::min(share * num_threads_, num_tasks), std::memory_order_relaxed);
    parallel([&](int thread, int) {
      Range range = {std::min(share * thread, num_tasks),
                     std::min(share * (thread + 1), num_tasks)};
      while (!range.empty()) {
        const Range next = take(num_tasks);
        fn(range, next, thread);
        range = next;
      }
    });
  }

 private:
  void end();

  struct Job {
    void (*call)(void* callable, int thread, int num_threads) = nullptr;
    void* callable = nullptr;
  };

  // A number that one side changes and the other waits to see changed: spinning first, then asleep.
  class alignas(64) Gate {
   public:
    void wait_while(std::uint32_t seen, bool spin);
    void wait_until_zero(bool spin);
    void set(std::uint32_t value) { value_.store(value, std::memory_order_relaxed); }
    void add_and_wake();       // one more; wakes the sleepers
    void subtract_and_wake();  // one less; wakes the sleepers when it reaches 0

   private:
    template <class Done>
    void wait(const Done& done, bool spin);
    void wake();

    std::atomic<std::uint32_t> value_{0};
    std::atomic<std::uint32_t> num_asleep_{0};
    std::mutex mutex_;
    std::condition_variable changed_;
  };

  void run_phase(const Job& job);
  void call(const Job& job, int thread);
  std::int64_t share_of(std::int64_t tasks_left) const {
    constexpr std::int64_t kPerThread = 2;
    return std::max<std::int64_t>(tasks_left / (kPerThread * num_threads_), 1);
  }
  Range take(std::int64_t num_tasks);
  void work(int thread);

  const int num_threads_;
  const bool spin_;
  Gate phase_;    // counts phases; workers wait for the next
  Gate running_;  // workers that have not finished the phase; the caller waits for 0
  alignas(64) std::atomic<std::int64_t> next_task_{0};
  alignas(64) Job job_;
  std::atomic<bool> busy_{false};
  std::mutex thrown_mutex_;
  std::exception_ptr thrown_;  // in this phase, the first
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace glint
