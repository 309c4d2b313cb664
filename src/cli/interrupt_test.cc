#include "cli/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

#include "base/owned_fd.h"

namespace glint {
namespace {

TEST(InterruptDeathTest, without_a_guard_the_program_ends_with_130) {
  EXPECT_EXIT(
      {
        handle_interrupts();
        raise(SIGINT);
      },
      testing::ExitedWithCode(130), "");
}

TEST(InterruptDeathTest, a_second_one_ends_the_program_even_with_a_guard) {
  EXPECT_EXIT(
      {
        handle_interrupts();
        InterruptGuard guard;
        raise(SIGINT);
        raise(SIGINT);
      },
      testing::ExitedWithCode(130), "");
}

TEST(Interrupt, a_guard_turns_it_into_a_flag_and_the_next_begins_anew) {
  handle_interrupts();
  for (int i = 0; i < 2; ++i) {
    InterruptGuard guard;
    EXPECT_FALSE(guard.interrupted());
    raise(SIGINT);
    EXPECT_TRUE(guard.interrupted());
  }
}

TEST(Shutdown, the_first_signal_is_waited_for) {
  ShutdownGuard guard;
  EXPECT_FALSE(guard.wait_for(0));
  raise(SIGTERM);
  EXPECT_TRUE(guard.wait_for(0));
  EXPECT_TRUE(guard.wait_for(10));  // it stays
}

// The reader of a server's log went away: the server writes on, to nobody.
TEST(Shutdown, a_write_to_a_closed_pipe_is_an_error) {
  ASSERT_NE(::signal(SIGPIPE, SIG_DFL), SIG_ERR);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const OwnedFd to(ends[1]);
  ::close(ends[0]);
  const ShutdownGuard guard;
  EXPECT_EQ(::write(to.get(), "", 1), -1);
  EXPECT_EQ(errno, EPIPE);
}

TEST(ShutdownDeathTest, once_the_work_is_done_a_signal_ends_the_program_well) {
  const auto end_by_second = [](bool in_guard) {
    {
      ShutdownGuard guard;
      raise(SIGTERM);
      guard.work_is_done();
      if (in_guard) raise(SIGTERM);
    }
    raise(SIGTERM);
  };
  EXPECT_EXIT(end_by_second(true), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(end_by_second(false), testing::ExitedWithCode(0), "");
}

TEST(ShutdownDeathTest, the_second_signal_ends_the_program) {
  EXPECT_EXIT(
      {
        ShutdownGuard guard;
        raise(SIGINT);
        raise(SIGTERM);
      },
      testing::ExitedWithCode(128 + SIGTERM), "");
}

}  // namespace
}  // namespace glint
