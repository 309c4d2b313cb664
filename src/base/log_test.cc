#include "base/log.h"

#include <gtest/gtest.h>

#include <regex>

namespace glint {
namespace {

TEST(Log, lines_carry_time_and_level_and_go_to_stderr) {
  testing::internal::CaptureStderr();
  log(LogLevel::kWarning, "a {} line");
  const std::string shown = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(std::regex_match(
      shown, std::regex(R"([-\d]{10} \d\d:\d\d:\d\d\.\d{3} warning: a \{\} line\n)")))
      << shown;
}

TEST(Log, levels_below_the_limit_are_dropped_unmade) {
  int made = 0;
  const auto line = [&] {
    ++made;
    return std::string("x");
  };
  testing::internal::CaptureStderr();
  GLINT_LOG(kInfo, line());
  EXPECT_EQ(made, 0);
  set_log_level(LogLevel::kDebug);
  GLINT_LOG(kDebug, line());
  EXPECT_EQ(made, 1);
  set_log_level(LogLevel::kError);
  GLINT_LOG(kWarning, line());
  GLINT_LOG(kError, line());
  EXPECT_EQ(made, 2);
  set_log_level(LogLevel::kWarning);
  const std::string shown = testing::internal::GetCapturedStderr();
  EXPECT_NE(shown.find("debug: x\n"), std::string::npos) << shown;
  EXPECT_NE(shown.find("error: x\n"), std::string::npos) << shown;
}

TEST(Log, json_lines_are_objects) {
  testing::internal::CaptureStderr();
  set_log_format(LogFormat::kJson);
  log(LogLevel::kError, "a \"quoted\"\nline");
  log_fields(LogLevel::kError, "words", R"({"status":200})");
  set_log_format(LogFormat::kText);
  log_fields(LogLevel::kError, "words", R"({"status":200})");
  const std::string shown = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(std::regex_match(
      shown,
      std::regex(R"(\{"time":"[-0-9]+T[0-9:.]+Z","level":"error","message":"a \\"quoted\\"\\nline"\}
\{"time":"[^"]+","level":"error","status":200\}
[-0-9]+ [0-9:.]+ error: words
)"))) << shown;
}

}  // namespace
}  // namespace glint
