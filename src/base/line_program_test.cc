#include "base/line_program.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>

namespace glint {
namespace {

TEST(LineProgram, a_line_is_answered_by_a_line) {
  LineProgram program =
      LineProgram::start("while read -r line; do echo \"got $line\"; done").value();
  EXPECT_EQ(program.ask("one", 60).value(), "got one");
  EXPECT_EQ(program.ask("two words", 60).value(), "got two words");
  LineProgram moved = std::move(program);
  EXPECT_EQ(moved.ask("3", 60).value(), "got 3");
}

TEST(LineProgram, lines_longer_than_what_a_socket_holds_come_through) {
  LineProgram program = LineProgram::start("cat").value();
  const std::string line(1 << 20, 'x');
  EXPECT_EQ(program.ask(line, 60).value(), line);
}

TEST(LineProgram, pipes_end_programs_as_in_a_shell) {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  LineProgram program =
      LineProgram::start("read -r x; (while :; do echo y; done) 2>/dev/null | head -1").value();
  EXPECT_EQ(program.ask("x", 60).value(), "y");
  std::signal(SIGPIPE, before);
  EXPECT_TRUE(program.ask("x", 30).error().message.ends_with("ended instead of answering"));
}

TEST(LineProgram, failures_name_the_command) {
  LineProgram ends = LineProgram::start("exit 3").value();
  const auto ended = ends.ask("x", 60);
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.error().message, "\"exit 3\" ended instead of answering");
  EXPECT_EQ(ended.error().code, ErrorCode::kUnavailable);
  LineProgram sleeps = LineProgram::start("sleep 100").value();
  EXPECT_EQ(sleeps.ask("x", 0.05).error().message, "\"sleep 100\" has not answered in 0.05 s");
  EXPECT_EQ(sleeps.ask("x", 60).error().message, "\"sleep 100\" has failed before");
  LineProgram talks = LineProgram::start("read -r x; printf '1\n2\n'; sleep 100").value();
  EXPECT_EQ(talks.ask("x", 60).value(), "1");
  EXPECT_FALSE(talks.ask("y", 60).ok());
  LineProgram banner = LineProgram::start("echo 0; while read -r x; do echo $x; done").value();
  EXPECT_FALSE(banner.ask("x", 60).ok() && banner.check_silence().ok());
  LineProgram quiet = LineProgram::start("read -r x; echo $x").value();
  EXPECT_TRUE(quiet.ask("x", 60).ok() && quiet.check_silence().ok());
  LineProgram late = LineProgram::start("sleep 100").value();
  EXPECT_EQ(late.ask("x", 60, [] { return false; }).error().message,
            "\"sleep 100\" is not waited for any more");
}

TEST(LineProgram, one_that_ignores_its_end_is_killed) {
  const auto begin = std::chrono::steady_clock::now();
  {
    LineProgram deaf = LineProgram::start("trap '' TERM; read -r x; echo $x; sleep 60").value();
    EXPECT_EQ(deaf.ask("one", 60).value(), "one");  // so it ignores by now
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(LineProgram, what_the_shell_started_ends_with_it) {
  pid_t child = 0;
  {
    LineProgram program =
        LineProgram::start(
            "exec 3<&0; (trap '' TERM; read -r x <&3; exec sh -c 'echo $$; exec sleep 60') & wait")
            .value();
    child = std::stoi(program.ask("one", 60).value());
    EXPECT_EQ(::kill(child, 0), 0);
  }
  // Whose parent is gone: somebody else waits for it.
  for (int i = 0; i < 1000 && ::kill(child, 0) == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
    std::string number, name, state;
    if (!(stat >> number >> name >> state) || state == "Z") return;
  }
  EXPECT_NE(::kill(child, 0), 0);
}

}  // namespace
}  // namespace glint
