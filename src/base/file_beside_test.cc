#include "base/file_beside.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/npy.h"
#include "base/str.h"
#include "base/test_dir.h"

namespace glint {
namespace {

namespace fs = std::filesystem;

class Beside : public testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder_ / name; }
  void leave(const std::string& name) const {
    const OwnedFd file(::open(at(name).c_str(), O_WRONLY | O_CREAT, 0644));
    EXPECT_TRUE(file);
  }
  std::set<std::string> names() const {
    std::set<std::string> out;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      out.insert(entry.path().filename());
    return out;
  }

  const TestDir folder_;
};

// A process that began to write `path` and was killed; its id.
pid_t killed_writer_of(const std::string& path) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    const auto file = NpyWriter::create(path, {4});
    ::_exit(file.ok() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  return pid;
}

TEST_F(Beside, files_of_killed_writers_are_removed_by_the_next_of_the_same_name) {
  const std::string left = str("x.npy.tmp.", killed_writer_of(at("x.npy")));
  ASSERT_EQ(names(), std::set<std::string>{left});
  ASSERT_TRUE(write_file_atomic(at("y.npy"), "").ok());
  EXPECT_EQ(names(), (std::set<std::string>{left, "y.npy"})) << "those of another name stay";
  ASSERT_TRUE(write_file_atomic(at("x.npy"), "").ok());
  EXPECT_EQ(names(), (std::set<std::string>{"x.npy", "y.npy"}));
  killed_writer_of(at("x.npy"));
  ASSERT_TRUE(NpyWriter::create(at("x.npy"), {1}).value().finish().ok());
  EXPECT_EQ(names(), (std::set<std::string>{"x.npy", "y.npy"}));
}

TEST_F(Beside, files_of_the_living_and_of_other_names_stay) {
  const pid_t gone = killed_writer_of(at("x"));
  const std::string name = str("x.tmp.", gone);
  ASSERT_EQ(names(), std::set<std::string>{name});
  fs::remove(at(name));
  // The parent's and that of the first process, which others may not signal.
  const std::set<std::string> others = {str("x.tmp.", ::getppid()),
                                        "x.tmp.1",
                                        "x.tmp.",
                                        "x.tmp.0",
                                        "x.tmp.-1",
                                        str("x.tmp.0", gone),
                                        name + "x",
                                        name + ".",
                                        "y" + name,
                                        str("x.tmp.+", gone),
                                        str("x.tmp", gone),
                                        str("x.tmp.9", gone, "999999999")};
  for (const std::string& other : others) leave(other);
  ASSERT_TRUE(write_file_atomic(at("x"), "").ok());
  std::set<std::string> expected = others;
  expected.insert("x");
  EXPECT_EQ(names(), expected);
  fs::create_directory(at(name));
  ASSERT_TRUE(write_file_atomic(at("x"), "").ok());
  expected.insert(name);
  EXPECT_EQ(names(), expected) << "a directory stays";
}

// As that of a process of another machine or container, whose id is nobody's here.
TEST_F(Beside, locked_files_stay) {
  const std::string name = str("x.tmp.", killed_writer_of(at("x")));
  {
    const OwnedFd held(::open(at(name).c_str(), O_RDONLY));
    ASSERT_EQ(::flock(held.get(), LOCK_SH), 0);
    ASSERT_TRUE(write_file_atomic(at("x"), "").ok());
    EXPECT_EQ(names(), (std::set<std::string>{"x", name}));
  }
  const FileBeside mine = create_beside(at("x")).value();
  EXPECT_EQ(names(), (std::set<std::string>{"x", fs::path(mine.path).filename()}));
  const OwnedFd other(::open(mine.path.c_str(), O_RDONLY));
  EXPECT_NE(::flock(other.get(), LOCK_EX | LOCK_NB), 0);
}

// As two processes with one id, each in a container of its own.
TEST_F(Beside, a_file_that_is_being_written_is_not_begun_again) {
  NpyWriter first = NpyWriter::create(at("x"), {1}).value();
  const Status second = write_file_atomic(at("x"), "other");
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().message,
            at(str("x.tmp.", ::getpid())) +
                " is being written by another process; wait until it has ended");
  first.append(std::vector<float>{2});
  ASSERT_TRUE(first.finish().ok());
  EXPECT_TRUE(is_npy(read_file(at("x")).value()));
  EXPECT_TRUE(write_file_atomic(at("x"), "other").ok());
}

TEST_F(Beside, a_system_without_file_descriptors_is_no_wrong_argument) {
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const Status status = write_file_atomic(at("x"), "");
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kResourceExhausted) << status.error().message;
}

TEST_F(Beside, of_two_that_write_at_once_no_part_appears) {
  constexpr std::size_t kSize = 1 << 18;
  ASSERT_TRUE(write_file_atomic(at("x"), std::string(kSize, 'a')).ok());
  const auto write_often = [&](char letter) {
    for (int i = 0; i < 50; ++i) {
      const Status done = write_file_atomic(at("x"), std::string(kSize, letter));
      EXPECT_TRUE(done.ok() || done.error().message.find("is being written") != std::string::npos);
    }
  };
  std::thread one(write_often, 'b'), two(write_often, 'c');
  for (int i = 0; i < 200; ++i) {
    const std::string now = read_file(at("x")).value();
    EXPECT_EQ(now.size(), kSize);
    EXPECT_EQ(now.find_first_not_of(now.front()), now.npos) << now.front();
  }
  one.join();
  two.join();
  EXPECT_EQ(names(), std::set<std::string>{"x"});
}

}  // namespace
}  // namespace glint
