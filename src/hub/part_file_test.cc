#include "hub/part_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "base/test_dir.h"

namespace glint {
namespace {

struct PartFileTest : testing::Test {
  PartFile open(std::int64_t size = 10, std::int64_t part_bytes = 4) const {
    return PartFile::open(path, size, part_bytes).value();
  }
  const TestDir folder;
  const std::string path = folder / "abc.glint.incomplete";
};

TEST_F(PartFileTest, parts_come_in_any_order_and_are_known_to_the_next_program) {
  {
    PartFile file = open();
    EXPECT_EQ(file.num_parts(), 3);
    EXPECT_EQ(file.length_of(2), 2);
    EXPECT_TRUE(file.append(2, "ij").ok());
    EXPECT_TRUE(file.append(0, "ab").ok());
  }
  EXPECT_EQ(PartFile::bytes_in(path, 10), 4);
  PartFile file = open();
  EXPECT_EQ(file.done_of(0), 2);
  EXPECT_TRUE(file.append(0, "cd").ok());
  EXPECT_FALSE(file.is_complete());
  EXPECT_TRUE(file.append(1, "efgh").ok());
  EXPECT_TRUE(file.is_complete());
  EXPECT_TRUE(file.finish(folder / "abc").ok());
  EXPECT_EQ(read_file(folder / "abc").value(), "abcdefghij");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST_F(PartFileTest, a_folder_in_the_place_of_the_whole_file_is_named) {
  std::filesystem::create_directory(folder / "abc");
  const Status done = open().finish(folder / "abc");
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().message, "cannot write \"" + folder / "abc" + "\": Is a directory");
}

TEST_F(PartFileTest, what_belongs_to_another_file_is_not_used) {
  EXPECT_TRUE(open().append(0, "abcd").ok());
  EXPECT_EQ(open(11, 4).bytes_done(), 0);
  EXPECT_TRUE(open(11, 4).append(0, "abcd").ok());
  // A record that says more than there can be.
  folder.write("abc.glint.parts", std::string(48, 'x'));
  EXPECT_EQ(open(11, 5).bytes_done(), 0);
  std::filesystem::remove(folder / "abc.glint.parts");
  EXPECT_EQ(open(11, 5).bytes_done(), 0);
}

TEST_F(PartFileTest, keeps_its_parts_whatever_their_size_would_be_now) {
  EXPECT_EQ(PartFile::bytes_in(path, 10), 0);
  EXPECT_FALSE(file_exists(path));
  PartFile file = open();
  EXPECT_TRUE(file.append(1, "efgh").ok());
  EXPECT_EQ(PartFile::bytes_in(path, 11), 0);
  const PartFile again = open(10, 5);
  EXPECT_EQ(again.num_parts(), 3);
  EXPECT_EQ(again.done_of(1), 4);
}

TEST_F(PartFileTest, restarts_as_one_part) {
  PartFile file = open();
  EXPECT_TRUE(file.append(1, "efgh").ok());
  EXPECT_TRUE(file.restart(true).ok());
  EXPECT_EQ(file.num_parts(), 1);
  EXPECT_EQ(file.bytes_done(), 0);
  EXPECT_EQ(file.length_of(0), 10);
}

TEST_F(PartFileTest, what_cannot_be_written_is_said) {
  const auto bad = PartFile::open(folder / "none/x", 1, 1);
  EXPECT_NE(bad.error().message.find("No such file or directory"), std::string::npos);
  EXPECT_TRUE(PartFile::open(folder / "empty", 0, 4).value().is_complete());
}

}  // namespace
}  // namespace glint
