#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <stdexcept>

namespace glint {
namespace {

TEST(ThreadPool, every_thread_runs_once_and_the_caller_is_thread_0) {
  for (const int n : {1, 2, 5}) {
    ThreadPool pool(n);
    const std::thread::id caller = std::this_thread::get_id();
    std::vector<int> runs(static_cast<std::size_t>(n), 0);
    for (int phase = 0; phase < 1000; ++phase) {
      pool.parallel([&](int thread, int num_threads) {
        ASSERT_EQ(num_threads, n);
        ASSERT_EQ(std::this_thread::get_id() == caller, thread == 0);
        ++runs[static_cast<std::size_t>(thread)];
      });
    }
    for (const int count : runs) EXPECT_EQ(count, 1000);
  }
}

TEST(ThreadPool, run_gives_each_task_once_in_contiguous_ranges) {
  ThreadPool pool(3);
  for (const int num_tasks : {0, 1, 2, 3, 7, 100}) {
    std::vector<int> thread_of(static_cast<std::size_t>(num_tasks), -1);
    pool.run(num_tasks, [&](std::int64_t task, int thread) {
      EXPECT_EQ(thread_of[static_cast<std::size_t>(task)], -1);
      thread_of[static_cast<std::size_t>(task)] = thread;
    });
    EXPECT_TRUE(std::is_sorted(thread_of.begin(), thread_of.end()));
    for (const int thread : thread_of) EXPECT_GE(thread, 0);
  }
}

TEST(ThreadPool, run_dynamic_gives_each_task_once) {
  ThreadPool pool(4);
  for (int round = 0; round < 200; ++round) {
    std::vector<int> runs(97, 0);
    pool.run_dynamic(97, [&](std::int64_t task, int) { ++runs[static_cast<std::size_t>(task)]; });
    EXPECT_EQ(std::accumulate(runs.begin(), runs.end(), 0), 97);
    EXPECT_EQ(*std::max_element(runs.begin(), runs.end()), 1);
  }
}

TEST(ThreadPool, run_ranges_gives_each_task_once_and_foretells_each_threads_next_range) {
  constexpr int kThreads = 3;
  ThreadPool pool(kThreads);
  for (const int num_tasks : {0, 1, 2, 3, 4, 12, 13, 100, 1000}) {
    std::vector<int> runs(static_cast<std::size_t>(num_tasks), 0);
    std::vector<ThreadPool::Range> foretold(kThreads, {-1, -1});
    std::atomic<int> ranges = 0;
    pool.run_ranges(num_tasks, [&](ThreadPool::Range range, ThreadPool::Range next, int thread) {
      ThreadPool::Range& expected = foretold[static_cast<std::size_t>(thread)];
      ASSERT_LT(range.begin, range.end);
      ASSERT_LE(range.end, num_tasks);
      if (expected.begin >= 0) {
        EXPECT_EQ(range.begin, expected.begin);
        EXPECT_EQ(range.end, expected.end);
      }
      expected = next;
      for (std::int64_t task = range.begin; task < range.end; ++task) {
        ++runs[static_cast<std::size_t>(task)];
      }
      ++ranges;
    });
    for (const int count : runs) EXPECT_EQ(count, 1);
    for (const ThreadPool::Range& last : foretold) EXPECT_TRUE(last.empty());
    EXPECT_LE(ranges, 60);  // long at first: a range for each task would be 1,000
  }
}

TEST(ThreadPool, writes_of_a_phase_are_seen_by_the_next) {
  ThreadPool pool(4);
  std::vector<int> values(4, 0);
  for (int phase = 1; phase <= 2000; ++phase) {
    pool.parallel(
        [&](int thread, int n) { values[static_cast<std::size_t>(thread)] += (thread + 1) * n; });
    int sum = 0;
    pool.parallel([&](int thread, int) {
      if (thread == 1) sum = std::accumulate(values.begin(), values.end(), 0);
    });
    ASSERT_EQ(sum, 40 * phase);
  }
}

TEST(ThreadPool, sleeping_threads_wake_up) {
  ThreadPool pool(3);
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // far past the spin
    std::atomic<int> runs = 0;
    pool.parallel([&](int thread, int) {
      if (thread == 2)
        std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the caller sleeps too
      ++runs;
    });
    EXPECT_EQ(runs, 3);
  }
}

TEST(ThreadPool, exceptions_of_any_thread_are_the_callers_when_all_have_ended) {
  ThreadPool pool(3);
  for (int failing = 0; failing < 3; ++failing) {
    std::atomic<int> runs = 0;
    const auto job = [&](int thread, int) {
      if (thread == failing) std::vector<int>().at(0) = 0;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      ++runs;
    };
    EXPECT_THROW(pool.parallel(job), std::out_of_range);
    EXPECT_EQ(runs, 2);
  }
  std::atomic<int> runs = 0;
  pool.parallel([&](int, int) { ++runs; });
  EXPECT_EQ(runs, 3);
}

TEST(ThreadPool, more_threads_than_cpus) {
  ThreadPool pool(available_cpus() * 4 + 1);
  std::atomic<int> runs = 0;
  for (int phase = 0; phase < 100; ++phase) pool.parallel([&](int, int) { ++runs; });
  EXPECT_EQ(runs, 100 * pool.num_threads());
}

TEST(ThreadPoolDeathTest, nested_phases_abort) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        ThreadPool pool(2);
        pool.parallel([&](int, int) { pool.parallel([](int, int) {}); });
      },
      "inside another one");
}

}  // namespace
}  // namespace glint
