#include "eval/spill_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <vector>

#include "base/test_dir.h"

namespace glint {
namespace {

TEST(SpillFile, gives_back_what_it_took_in_another_order_and_pieces_of_other_sizes) {
  const SpillFile spill = SpillFile::create(testing::TempDir(), 1).value();
  std::vector<float> values(10000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.5f;
  ASSERT_TRUE(spill.write(7000, std::span(values).subspan(7000)).ok());
  ASSERT_TRUE(spill.write(0, std::span(values).first(7000)).ok());
  std::vector<float> back(10000);
  for (std::size_t i = 0; i < 10000; i += 1000)
    ASSERT_TRUE(spill.read(i, std::span(back).subspan(i, 1000)).ok());
  EXPECT_EQ(back, values);
  EXPECT_FALSE(spill.read(10000, std::span(back).first(1)).ok());
}

TEST(SpillFile, leaves_nothing_in_its_directory) {
  const TestDir dir;
  const SpillFile spill = SpillFile::create(dir.path(), 1).value();
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(SpillFile, a_directory_that_is_not_there_is_named) {
  const auto spill = SpillFile::create("/no/such/dir", 1);
  ASSERT_FALSE(spill.ok());
  EXPECT_NE(spill.error().message.find("/no/such/dir"), std::string::npos);
  EXPECT_NE(spill.error().message.find("--tmp DIR"), std::string::npos);
}

TEST(SpillFile, a_disk_without_room_is_refused_before_it_is_full) {
  const auto spill = SpillFile::create(testing::TempDir(), std::int64_t{1} << 60);
  ASSERT_FALSE(spill.ok());
  EXPECT_NE(spill.error().message.find(testing::TempDir() + "/ needs 1024 PiB, but"),
            std::string::npos)
      << spill.error().message;
  EXPECT_NE(spill.error().message.find("--tmp DIR"), std::string::npos);
}

TEST(SpillFile, a_full_disk_is_a_sentence) {
  // A limit on the size of files stands for the disk's.
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto ignore = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {.rlim_cur = 1 << 16, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const SpillFile spill = SpillFile::create(testing::TempDir(), 1).value();
  const Status status = spill.write(0, std::vector<float>(100000));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, ignore);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("--tmp"), std::string::npos);
}

}  // namespace
}  // namespace glint
