#include "cli/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

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
  for (const int number : {SIGHUP, SIGTERM, SIGINT}) {
    ASSERT_NE(::signal(SIGHUP, SIG_DFL), SIG_ERR);
    InterruptGuard guard;
    EXPECT_FALSE(guard.interrupted());
    raise(number);
    EXPECT_TRUE(guard.interrupted());
    EXPECT_EQ(interrupted_exit_code(), 128 + number);
  }
}

// A command under nohup goes on when its terminal closes.
TEST(Interrupt, an_ignored_hangup_stays_ignored) {
  ASSERT_NE(::signal(SIGHUP, SIG_IGN), SIG_ERR);
  {
    const InterruptGuard guard;
    raise(SIGHUP);
    EXPECT_FALSE(guard.interrupted());
  }
  ShutdownGuard guard;
  raise(SIGHUP);
  EXPECT_FALSE(guard.wait_for(0));
}

// A shell and the kernel both tell of a closed terminal.
TEST(InterruptDeathTest, a_hangup_is_never_the_second_signal) {
  ASSERT_NE(::signal(SIGHUP, SIG_DFL), SIG_ERR);
  const auto end_by = [](auto&& guard, int first) {
    raise(first);
    raise(SIGHUP);
    guard.reset();
    raise(SIGHUP);
    ::_exit(7);
  };
  EXPECT_EXIT(end_by(std::make_unique<InterruptGuard>(), SIGTERM), testing::ExitedWithCode(7), "");
  EXPECT_EXIT(end_by(std::make_unique<ShutdownGuard>(), SIGHUP), testing::ExitedWithCode(7), "");
}

TEST(InterruptDeathTest, a_guard_of_ctrl_c_alone_stops_no_other_signal) {
  EXPECT_EXIT(
      {
        const InterruptGuard guard(InterruptGuard::Hears::kCtrlC);
        raise(SIGTERM);
      },
      testing::KilledBySignal(SIGTERM), "");
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
