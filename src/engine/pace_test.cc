#include "engine/pace.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

Pace::Time at(double seconds) { return Pace::Time{} + from_seconds(seconds); }

// Ten steps of a tenth of a second, of 90 tokens that are read and 10 that are generated.
void run_a_second(Pace& pace, double begin) {
  for (int i = 0; i < 10; ++i)
    pace.step(at(begin + 0.1 * i), at(begin + 0.1 * (i + 1)), {.read = 90, .generated = 10});
}

TEST(Pace, an_idle_time_makes_no_queue_longer) {
  Pace pace;
  run_a_second(pace, 0);
  EXPECT_NEAR(pace.queue_seconds(1, 2000), 2, 0.1);
  pace.rest();
  run_a_second(pace, 41);
  EXPECT_NEAR(pace.queue_seconds(1, 2000), 2, 0.1);
}

TEST(Pace, a_queue_that_does_not_move_gets_longer) {
  Pace pace;
  pace.started(1, true);
  pace.started(2, true);
  run_a_second(pace, 0);
  EXPECT_NEAR(pace.queue_seconds(4, 0), 2, 0.1);
  for (int i = 1; i < 5; ++i) run_a_second(pace, i);
  EXPECT_GT(pace.queue_seconds(4, 0), 8);
  EXPECT_EQ(pace.queue_seconds(0, 0), 0);
  for (int i = 5; i < 600; ++i) run_a_second(pace, i);
  EXPECT_LE(pace.queue_seconds(4, 0), 24 * 3600);
}

TEST(Pace, a_pause_makes_no_queue_longer) {
  Pace pace;
  pace.started(1, true);
  pace.started(2, true);
  run_a_second(pace, 0);
  pace.rest();
  run_a_second(pace, 300);
  EXPECT_NEAR(pace.queue_seconds(4, 0), 4, 0.5);  // two in two seconds
}

TEST(Pace, generated_tokens_are_counted_by_the_clock) {
  Pace pace;
  EXPECT_EQ(pace.generated_per_second(at(0)), 0);
  run_a_second(pace, 0);
  EXPECT_NEAR(pace.generated_per_second(at(1)), 100, 5);
  pace.rest();
  EXPECT_LT(pace.generated_per_second(at(46)), 1);
}

TEST(Pace, the_host_costs_what_lies_between_two_steps) {
  Pace pace;
  EXPECT_EQ(pace.step(at(1), at(2), {}), 0);
  EXPECT_NEAR(pace.step(at(2.25), at(3), {}), 0.25, 1e-9);
  EXPECT_EQ(pace.step(at(2.5), at(4), {}), 0);  // launched while the one before ran
  pace.rest();
  EXPECT_EQ(pace.step(at(9), at(10), {}), 0);
}

}  // namespace
}  // namespace glint
