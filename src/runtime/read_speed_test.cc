#include "runtime/read_speed.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

#include "base/file.h"
#include "base/str.h"
#include "base/thread_pool.h"

namespace glint {
namespace {

TEST(ReadSpeed, reads_files_and_names_one_that_is_not_there) {
  const std::string file = str(testing::TempDir(), "read_speed.", ::getpid());
  ASSERT_TRUE(write_file_atomic(file, std::string(3 << 20, 'x')).ok());
  const std::string files[] = {file, file};
  const Result<double> speed = read_speed(files, 2);
  ASSERT_TRUE(speed.ok()) << speed.error().message;
  EXPECT_GT(speed.value(), 0);
  EXPECT_GT(cached_share(files), 0.5);  // it was just read
  const Result<double> from_disk = read_speed(files, 1, ReadFrom::kDisk);
  ASSERT_TRUE(from_disk.ok()) << from_disk.error().message;
  EXPECT_GT(from_disk.value(), 0);
  std::remove(file.c_str());
  EXPECT_EQ(cached_share(files), 0);  // no page of no file
  const Result<double> none = read_speed(files, 2);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("cannot read " + file), std::string::npos);
}

TEST(ReadSpeed, memory_that_is_new_has_a_speed) {
  ThreadPool pool(2);
  EXPECT_GT(new_memory_speed(pool), 0);
}

}  // namespace
}  // namespace glint
