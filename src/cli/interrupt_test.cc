#include "cli/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>

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
