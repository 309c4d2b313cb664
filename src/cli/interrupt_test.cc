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

TEST(Interrupt, a_guard_turns_it_into_a_flag_that_can_be_lowered) {
  handle_interrupts();
  for (int i = 0; i < 2; ++i) {
    InterruptGuard guard;
    EXPECT_FALSE(guard.interrupted());
    raise(SIGINT);
    EXPECT_TRUE(guard.interrupted());
    guard.reset();
    EXPECT_FALSE(guard.interrupted());
    raise(SIGINT);
    EXPECT_TRUE(guard.interrupted());
  }
}

}  // namespace
}  // namespace glint
