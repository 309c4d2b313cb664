#include "cli/console.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "cli/interrupt.h"

namespace glint {
namespace {

TEST(Console, a_full_disk_is_an_error) {
  std::FILE* full = std::fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  Console console(full, stderr, false);
  console.print("x");
  console.flush();
  errno = ENOTEMPTY;  // of something since then
  EXPECT_EQ(console.close().error().message,
            "cannot write to standard output: No space left on device");
  std::fclose(full);
}

// Or what is printed would go into the first file that the program opens.
TEST(ConsoleDeathTest, a_closed_stream_keeps_its_number_and_fails) {
  EXPECT_EXIT(
      {
        for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(fd);
        keep_standard_streams();
        char byte = 'x';
        const bool fails = ::read(STDIN_FILENO, &byte, 1) < 0 &&
                           ::write(STDOUT_FILENO, &byte, 1) < 0 &&
                           ::write(STDERR_FILENO, &byte, 1) < 0;
        end_program(fails && ::dup(STDIN_FILENO) > STDERR_FILENO ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(Console, styles_only_on_terminals_that_want_them) {
  int master, slave;
  if (openpty(&master, &slave, nullptr, nullptr, nullptr) != 0) GTEST_SKIP() << "no terminals";
  std::FILE* terminal = fdopen(slave, "w");
  std::FILE* file = std::tmpfile();
  EXPECT_EQ(Console(terminal, file, false).dim("x"), "\x1b[2mx\x1b[0m");
  EXPECT_EQ(Console(terminal, file, true).dim("x"), "x");
  EXPECT_EQ(Console(file, terminal, false).bold("x"), "x");
  EXPECT_EQ(Console(terminal, file, true).shown("\x1b[2J\r\n\t\r\xc2\x9b é\x7f"),
            "\\x1b[2J\r\n\t\\x0d\\xc2\\x9b é\\x7f");
  EXPECT_EQ(Console(file, terminal, false).shown("\x1b[2J\n"), "\x1b[2J\n");
  std::fclose(terminal);
  std::fclose(file);
  close(master);
}

TEST(Console, a_note_after_a_text_begins_a_line_of_the_terminal) {
  int master, slave;
  if (openpty(&master, &slave, nullptr, nullptr, nullptr) != 0) GTEST_SKIP() << "no terminals";
  std::FILE* terminal = fdopen(slave, "w");
  std::FILE* pipe = std::tmpfile();
  {
    Console console(pipe, terminal, false);
    console.print("19");
    console.end_line();
    console.note("done");
  }
  EXPECT_EQ(std::ftell(pipe), 2);
  std::fclose(terminal);
  std::string shown;
  char part[100];
  for (ssize_t n = 0; (n = read(master, part, sizeof part)) > 0;)
    shown.append(part, static_cast<std::size_t>(n));
  EXPECT_EQ(shown, "\r\ndone\r\n");
  std::fclose(pipe);
  close(master);
}

TEST(Console, notes_of_a_log_do_not_depend_on_its_level) {
  testing::internal::CaptureStderr();
  Console console(stdout, stderr, false);
  console.log_notes();
  set_log_level(LogLevel::kError);
  console.note("serving");
  set_log_level(LogLevel::kWarning);
  const std::string shown = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(shown.ends_with(" info: serving\n")) << shown;
}

TEST(Console, a_note_is_one_line_without_control_characters) {
  std::FILE* file = std::tmpfile();
  Console(file, file, false).note("a\n\x1b]52;c;eA==\x07\t\xc2\x9b é");
  std::rewind(file);
  char text[100] = {};
  std::fread(text, 1, sizeof text - 1, file);
  EXPECT_STREQ(text, "a\\x0a\\x1b]52;c;eA==\\x07\\x09\\xc2\\x9b é\n");
  std::fclose(file);
}

}  // namespace
}  // namespace glint
