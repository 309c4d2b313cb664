#include "base/queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace glint {
namespace {

TEST(Queue, values_come_in_order) {
  Queue<int> queue;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(queue.push(i));
  EXPECT_EQ(queue.pop(), 0);
  EXPECT_EQ(queue.pop_all(), (std::deque<int>{1, 2}));
}

TEST(Queue, pop_for_gives_up) {
  Queue<int> queue;
  EXPECT_EQ(queue.pop_for(0.001), std::nullopt);
  queue.push(5);
  EXPECT_EQ(queue.pop_for(60), 5);
}

TEST(Queue, a_closed_queue_takes_nothing_and_gives_the_rest) {
  Queue<int> queue;
  queue.push(1);
  EXPECT_FALSE(queue.closed());
  queue.close();
  EXPECT_TRUE(queue.closed());
  EXPECT_FALSE(queue.push(2));
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.pop(), std::nullopt);
  EXPECT_TRUE(queue.pop_all().empty());
}

TEST(Queue, closing_wakes_who_waits) {
  Queue<int> queue;
  std::thread waiter([&] { EXPECT_EQ(queue.pop(), std::nullopt); });
  queue.close();
  waiter.join();
}

TEST(Queue, moves_values_that_cannot_be_copied) {
  Queue<std::unique_ptr<int>> queue;
  queue.push(std::make_unique<int>(3));
  EXPECT_EQ(**queue.pop(), 3);
}

TEST(Queue, many_threads_lose_nothing_and_keep_each_ones_order) {
  constexpr int kThreads = 4, kEach = 2000;
  Queue<std::pair<int, int>> queue;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&queue, t] {
      for (int i = 0; i < kEach; ++i) queue.push({t, i});
    });
  }
  std::vector<int> next(kThreads, 0);
  for (int taken = 0; taken < kThreads * kEach;) {
    for (const auto& [thread, i] : queue.pop_all()) {
      EXPECT_EQ(i, next[static_cast<std::size_t>(thread)]++);
      ++taken;
    }
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Guarded, readers_see_whole_values) {
  Guarded<std::vector<int>> guarded;
  guarded.store(std::vector<int>(100, 0));
  std::thread writer([&] {
    for (int i = 1; i < 1000; ++i) guarded.store(std::vector<int>(100, i));
  });
  for (int i = 0; i < 1000; ++i) {
    const std::vector<int> value = guarded.load();
    EXPECT_EQ(value, std::vector<int>(100, value.front()));
  }
  writer.join();
}

}  // namespace
}  // namespace glint
