#include "base/terminal.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

namespace glint {
namespace {

TEST(Terminal, a_pipe_is_none_and_counts_80_columns) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_FALSE(is_terminal(ends[1]));
  EXPECT_EQ(terminal_width(ends[1]), 80);
  close(ends[0]);
  close(ends[1]);
}

TEST(Terminal, a_terminal_tells_its_width) {
  int master, slave;
  struct winsize size = {.ws_row = 24, .ws_col = 123, .ws_xpixel = 0, .ws_ypixel = 0};
  if (openpty(&master, &slave, nullptr, nullptr, &size) != 0) GTEST_SKIP() << "no terminals";
  EXPECT_TRUE(is_terminal(slave));
  EXPECT_EQ(terminal_width(slave), 123);
  close(master);
  close(slave);
}

}  // namespace
}  // namespace glint
