#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/test_dir.h"

namespace glint {
namespace {

class File : public testing::Test {
 protected:
  std::string path(const char* name) const { return folder_ / name; }

  const TestDir folder_;
};

TEST_F(File, what_is_written_is_read_and_mapped) {
  const std::string contents("a\0b\n", 4);
  ASSERT_TRUE(write_file_atomic(path("x"), "old").ok());
  ASSERT_TRUE(write_file_atomic(path("x"), contents).ok());
  EXPECT_EQ(read_file(path("x")).value(), contents);
  MappedFile mapped = MappedFile::open(path("x")).value();
  const std::byte* address = mapped.bytes().data();
  MappedFile moved = std::move(mapped);
  ASSERT_EQ(moved.bytes().size(), 4u);
  EXPECT_EQ(moved.bytes().data(), address);
  EXPECT_EQ(std::memcmp(address, contents.data(), 4), 0);
  EXPECT_EQ(moved.path(), path("x"));
  // Nothing but x is left in the folder.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(File, pages_are_read_ahead_and_forgotten_without_a_trace) {
  std::string contents(3 << 20, 'x');
  contents.back() = 'y';
  ASSERT_TRUE(write_file_atomic(path("x"), contents).ok());
  const MappedFile mapped = MappedFile::open(path("x")).value();
  const auto bytes = mapped.bytes();
  read_pages(bytes.subspan(5));
  EXPECT_TRUE(is_cached(bytes.last(1)));
  for (const auto& part : {bytes, bytes.subspan(4097, 2), bytes.first(0)}) {
    uncache_pages(part);  // as far as the file system can
    prefetch_pages(part);
    discard_pages(part);
    EXPECT_EQ(std::memcmp(bytes.data(), contents.data(), contents.size()), 0);
  }
}

TEST_F(File, what_is_not_there_any_more_is_not_read_ahead) {
  ASSERT_TRUE(write_file_atomic(path("x"), std::string(3 << 20, 'x')).ok());
  const MappedFile mapped = MappedFile::open(path("x")).value();
  std::filesystem::resize_file(path("x"), 1 << 20);
  read_pages(mapped.bytes());  // touching them would be a SIGBUS
  EXPECT_TRUE(is_cached(mapped.bytes()));
}

TEST_F(File, empty_files_map_to_nothing) {
  ASSERT_TRUE(write_file_atomic(path("empty"), "").ok());
  EXPECT_EQ(MappedFile::open(path("empty")).value().bytes().size(), 0u);
  EXPECT_EQ(read_file(path("empty")).value(), "");
  EXPECT_EQ(read_file("/proc/sys/kernel/random/boot_id").value().size(),
            37u);  // says that it has 0
  EXPECT_GT(read_file("/proc/self/maps").value().size(), 4096u);
  EXPECT_FALSE(read_file("/proc/self/maps", 99).ok());
}

TEST_F(File, missing_files_are_not_found) {
  EXPECT_EQ(read_file(path("none")).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(MappedFile::open(path("none")).error().message,
            "cannot open " + path("none") + ": No such file or directory");
  std::filesystem::create_symlink("../blobs/none", path("link"));
  const std::string dangling =
      "cannot open " + path("link") + ": it is a link to ../blobs/none, which is not there";
  EXPECT_EQ(read_file(path("link")).error().message, dangling);
  EXPECT_EQ(MappedFile::open(path("link")).error().message, dangling);
  EXPECT_EQ(write_file_atomic(path("no/folder"), "x").error().code, ErrorCode::kInvalidArgument);
}

TEST_F(File, folders_and_pipes_are_refused_without_hanging) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  for (const auto& [name, kind] :
       {std::pair(path("pipe"), "not a regular file"), std::pair(folder_.path(), "a directory")}) {
    const std::string refusal = name + " is " + kind + "; a file is expected";
    EXPECT_EQ(read_file(name).error().message, refusal);
    EXPECT_EQ(MappedFile::open(name).error().message, refusal);
    EXPECT_FALSE(file_exists(name));
    EXPECT_TRUE(is_present(name));
  }
  EXPECT_TRUE(is_directory(folder_.path()));
  EXPECT_FALSE(is_directory(path("pipe")));
}

// Renaming onto a device would put a file in its place, for everybody on the machine.
TEST_F(File, what_is_written_takes_the_place_of_files_only) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  ASSERT_EQ(::symlink("pipe", path("link").c_str()), 0);
  for (const std::string& name : {path("pipe"), path("link")}) {
    EXPECT_EQ(write_file_atomic(name, "x").error().message,
              "cannot write " + name + ": it is not a regular file");
  }
  EXPECT_EQ(write_file_atomic(folder_.path(), "x").error().message,
            "cannot write " + folder_.path() + ": it is a directory");
  EXPECT_EQ(write_file_atomic("", "x").error().message, "the file to write has no name");
  EXPECT_TRUE(find_replaceable(path("none")).ok());
  EXPECT_EQ(find_replaceable(path("none/file")).error().message,
            "cannot write " + path("none/file") + ": No such file or directory");
}

// Where standard output goes to a file, /dev/stdout is such a link.
TEST_F(File, writing_through_a_link_replaces_the_file_and_not_the_link) {
  ASSERT_TRUE(write_file_atomic(path("file"), "old").ok());
  ASSERT_EQ(::symlink("file", path("link").c_str()), 0);
  ASSERT_TRUE(write_file_atomic(path("link"), "new").ok());
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_EQ(read_file(path("file")).value(), "new");
  ASSERT_EQ(::symlink("nowhere", path("loose").c_str()), 0);
  EXPECT_EQ(write_file_atomic(path("loose"), "x").error().message,
            "cannot write " + path("loose") + ": No such file or directory");
}

TEST_F(File, git_lfs_pointers_are_named) {
  ASSERT_TRUE(write_file_atomic(path("lfs"), "version https://git-lfs.github.com/spec/v1\n").ok());
  const std::string message =
      path("lfs") + " is a git-lfs pointer, not the file: run \"git lfs pull\" beside it";
  EXPECT_EQ(read_file(path("lfs")).error().message, message);
  EXPECT_EQ(MappedFile::open(path("lfs")).error().message, message);
}

TEST_F(File, files_over_the_limit_are_refused_before_they_are_read) {
  ASSERT_TRUE(write_file_atomic(path("big"), std::string(100, 'x')).ok());
  EXPECT_EQ(read_file(path("big"), 99).error().message,
            path("big") + " holds 100 bytes, more than the 99 allowed");
  EXPECT_TRUE(read_file(path("big"), 100).ok());
}

TEST_F(File, symbolic_link_loops_are_errors) {
  ASSERT_EQ(::symlink(path("a").c_str(), path("b").c_str()), 0);
  ASSERT_EQ(::symlink(path("b").c_str(), path("a").c_str()), 0);
  EXPECT_FALSE(read_file(path("a")).ok());
  EXPECT_TRUE(is_present(path("a")));
  EXPECT_FALSE(is_present(path("c")));
  EXPECT_FALSE(is_present(path("c/d")));
}

TEST_F(File, nothing_has_a_name_that_is_too_long) {
  const std::string name = path(std::string(256, 'x').c_str());
  EXPECT_FALSE(is_present(name));
  EXPECT_EQ(find_replaceable(name).error().message,
            "cannot write " + name + ": File name too long");
}

}  // namespace
}  // namespace glint
