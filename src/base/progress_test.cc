#include "base/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <thread>
#include <vector>

namespace glint {
namespace {

TEST(Progress, line_shows_share_amount_rate_and_time_left) {
  EXPECT_EQ(progress_line("loading", 1 << 20, 4 << 20, Progress::Unit::kBytes, 2, 80),
            "loading   25% [======>                    ] 1 MiB of 4 MiB, 512 KiB/s, 6 s left");
  EXPECT_EQ(progress_line("tests", 3, 1000, Progress::Unit::kItems, 1, 30),
            "tests    0% 3 of 1,000, 3/s, 5");
  EXPECT_EQ(progress_line("empty", 0, 0, Progress::Unit::kItems, 0, 40),
            "empty  100% [==================] 0 of 0");
}

TEST(Progress, silent_where_there_is_no_terminal) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  {
    Progress progress("x", 10, Progress::Unit::kItems, ends[1]);
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    progress.add(5);
  }
  char byte;
  EXPECT_EQ(read(ends[0], &byte, 1), -1);
  close(ends[0]);
  close(ends[1]);
}

// The output to a terminal that is now closed; `master` is its other side.
std::string read_all(int master) {
  std::string shown;
  char text[4096];
  for (ssize_t n; (n = read(master, text, sizeof text)) > 0;) {
    shown.append(text, static_cast<std::size_t>(n));
  }
  return shown;
}

TEST(Progress, draws_on_a_terminal_after_a_second_and_erases) {
  int master, slave;
  if (openpty(&master, &slave, nullptr, nullptr, nullptr) != 0) GTEST_SKIP() << "no terminals";
  const auto start = std::chrono::steady_clock::now();
  {
    Progress progress("packing", 1000, Progress::Unit::kItems, slave);
    progress.add(100);  // too early to be drawn
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 100; ++i) progress.add(1);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  close(slave);
  const std::string shown = read_all(master);
  int draws = 0;
  for (std::size_t at = 0; (at = shown.find("packing", at)) != std::string::npos; ++at) ++draws;
  EXPECT_GE(draws, 1);
  EXPECT_LE(draws, 1 + static_cast<int>((seconds.count() - 1) * 10));
  EXPECT_TRUE(shown.ends_with("\r\x1b[K"));
  close(master);
}

}  // namespace
}  // namespace glint
