#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/control_groups.h"
#include "base/ending_signals.h"
#include "base/undo.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace glint {
namespace {

// Longer than the serial work between two phases of a layer, shorter than it takes the kernel to
// notice.
constexpr std::chrono::microseconds kSpin{50};

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

}  // namespace

int available_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int cpus = ::sched_getaffinity(0, sizeof set, &set) == 0
                       ? CPU_COUNT(&set)
                       : static_cast<int>(std::thread::hardware_concurrency());
  return std::max(std::min(cpus, quota_cpus()), 1);
}

// A sleeper counts itself in before it looks at the value for the last time, and a waker changes
// the value before it looks at the count; both in the one order of sequential consistency, so that
// one of them sees the other.
template <class Done>
void ThreadPool::Gate::wait(const Done& done, bool spin) {
  if (spin) {
    const auto end = std::chrono::steady_clock::now() + kSpin;
    do {
      for (int i = 0; i < 16; ++i) {
        if (done(value_.load(std::memory_order_acquire))) return;
        relax();
      }
    } while (std::chrono::steady_clock::now() < end);
  }
  std::unique_lock lock(mutex_);
  num_asleep_.fetch_add(1);
  changed_.wait(lock, [&] { return done(value_.load()); });
  num_asleep_.fetch_sub(1);
}

void ThreadPool::Gate::wake() {
  if (num_asleep_.load() == 0) return;
  const std::scoped_lock lock(mutex_);
  changed_.notify_all();
}

void ThreadPool::Gate::wait_while(std::uint32_t seen, bool spin) {
  wait([seen](std::uint32_t value) { return value != seen; }, spin);
}

void ThreadPool::Gate::wait_until_zero(bool spin) {
  wait([](std::uint32_t value) { return value == 0; }, spin);
}

void ThreadPool::Gate::add_and_wake() {
  value_.fetch_add(1);
  wake();
}

void ThreadPool::Gate::subtract_and_wake() {
  if (value_.fetch_sub(1) == 1) wake();
}

ThreadPool::ThreadPool(int num_threads)
    : num_threads_(num_threads), spin_(num_threads <= available_cpus()) {
  GLINT_CHECK(num_threads >= 1, "a pool has at least its caller's thread");
  Undo undo([this] { end(); });
  for (int thread = 1; thread < num_threads; ++thread)
    workers_.emplace_back([this, thread] { work(thread); });
  undo.keep();
}

ThreadPool::~ThreadPool() { end(); }

void ThreadPool::end() {
  stop_ = true;
  phase_.add_and_wake();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run_phase(const Job& job) {
  GLINT_CHECK(!busy_.exchange(true), "a phase of a ThreadPool inside another one");
  if (num_threads_ > 1) {
    job_ = job;
    running_.set(static_cast<std::uint32_t>(num_threads_ - 1));
    phase_.add_and_wake();
  }
  call(job, 0);
  // Also after an exception: the others work on what lies in the caller's frame.
  if (num_threads_ > 1) running_.wait_until_zero(spin_);
  busy_.store(false);
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void ThreadPool::call(const Job& job, int thread) {
  try {
    job.call(job.callable, thread, num_threads_);
  } catch (...) {
    const std::lock_guard lock(thrown_mutex_);
    if (!thrown_) thrown_ = std::current_exception();
  }
}

ThreadPool::Range ThreadPool::take(std::int64_t num_tasks) {
  std::int64_t begin = next_task_.load(std::memory_order_relaxed), end;
  do {
    if (begin == num_tasks) return {begin, begin};
    end = begin + share_of(num_tasks - begin);
  } while (!next_task_.compare_exchange_weak(begin, end, std::memory_order_relaxed));
  return {begin, end};
}

void ThreadPool::work(int thread) {
  leave_terminal_signals();
  for (std::uint32_t seen = 0;; ++seen) {
    phase_.wait_while(seen, spin_);
    if (stop_) return;
    call(job_, thread);
    running_.subtract_and_wake();
  }
}

}  // namespace glint
