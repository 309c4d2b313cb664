#include "doctor/run_program.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

Result<std::string> shell(const std::string& script, double seconds = 600) {
  return run_program({"/bin/sh", "-c", script}, seconds);
}

TEST(RunProgram, gives_what_is_printed_to_both_streams) {
  EXPECT_EQ(shell("echo out; echo err >&2; cat").value(), "out\nerr\n");
}

TEST(RunProgram, a_status_other_than_0_fails_with_the_first_line) {
  const auto done = shell("echo; echo 'Failed to initialize NVML'; echo more; exit 9");
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().message, "/bin/sh failed: Failed to initialize NVML");
}

TEST(RunProgram, what_does_not_exist_fails) {
  const auto done = run_program({"/no/such/program"}, 600);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().message, "/no/such/program: No such file or directory");
}

TEST(RunProgram, who_does_not_answer_is_ended_with_what_it_started) {
  for (const char* const script : {"sleep 100000 & wait", "exec >/dev/null 2>&1; sleep 100000"}) {
    const auto done = shell(script, 0.05);
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().message, "/bin/sh did not answer within 0.05 seconds");
  }
}

TEST(RunProgram, who_prints_without_end_is_ended) {
  const auto done = shell("exec yes");
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().message, "/bin/sh prints without end");
}

}  // namespace
}  // namespace glint
