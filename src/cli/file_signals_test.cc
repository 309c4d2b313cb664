#include "cli/file_signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/str.h"
#include "cli/interrupt.h"

namespace glint {
namespace {

namespace fs = std::filesystem;

std::string new_file(std::size_t bytes) {
  const std::string path = str(testing::TempDir(), "file_signals.", ::getpid());
  EXPECT_TRUE(write_file_atomic(path, std::string(bytes, 'x')).ok());
  return path;
}

TEST(FileSignalsDeathTest, a_mapped_file_that_is_cut_short_is_named) {
  const std::string path = new_file(1 << 20);
  EXPECT_EXIT(
      {
        handle_file_signals();
        const MappedFile file = MappedFile::open(path).value();
        fs::resize_file(path, 100);
        // The page that the end lies in stays readable; what follows it does not.
        const volatile std::byte* bytes = file.bytes().data();
        if (bytes[0] == std::byte{'x'}) static_cast<void>(bytes[1 << 19]);
      },
      testing::ExitedWithCode(2),
      "^glint: cannot read /.*file_signals.*: it was cut short[^\n]*\n$");
  fs::remove(path);
}

TEST(FileSignalsDeathTest, threads_that_fail_at_once_say_it_once) {
  const std::string path = new_file(1 << 20);
  EXPECT_EXIT(
      {
        handle_file_signals();
        const MappedFile file = MappedFile::open(path).value();
        fs::resize_file(path, 100);
        std::vector<std::thread> threads;
        for (int t = 0; t < 8; ++t) {
          threads.emplace_back([&] {
            const volatile std::byte* bytes = file.bytes().data();
            static_cast<void>(bytes[1 << 19]);
          });
        }
        for (std::thread& thread : threads) thread.join();
      },
      testing::ExitedWithCode(2), "^glint: cannot read [^\n]*it was cut short[^\n]*\n$");
  fs::remove(path);
}

TEST(FileSignalsDeathTest, a_bus_error_that_is_about_no_file_is_a_crash) {
  EXPECT_EXIT(
      {
        handle_file_signals();
        raise(SIGBUS);
      },
      testing::KilledBySignal(SIGBUS), "");
}

// True if writing 2,000 bytes fails while files may have 1,000.
bool write_over_the_limit(const std::string& path) {
  struct rlimit limit = {};
  limit.rlim_cur = limit.rlim_max = 1000;
  ::setrlimit(RLIMIT_FSIZE, &limit);
  return !write_file_atomic(path, std::string(2000, 'x')).ok();
}

TEST(FileSignalsDeathTest, a_write_beyond_the_limit_of_file_sizes_fails_and_does_not_kill) {
  const std::string path = new_file(0);
  EXPECT_EXIT(
      {
        handle_file_signals();
        end_program(write_over_the_limit(path) ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  fs::remove(path);
}

}  // namespace
}  // namespace glint
