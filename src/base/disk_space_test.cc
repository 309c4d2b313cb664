#include "base/disk_space.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "base/owned_fd.h"
#include "base/test_dir.h"

namespace glint {
namespace {

// The process mounts apart from others from now on; one that is not root's is root of users of its
// own, for files have no owner where the user has no number.
bool mount_apart() {
  const std::string user = str("0 ", ::getuid(), " 1"), group = str("0 ", ::getgid(), " 1");
  const auto tell = [](const char* file, std::string_view text) {
    return static_cast<bool>(std::ofstream(file) << text << std::flush);
  };
  if (::unshare(CLONE_NEWNS) == 0) return true;
  return ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && tell("/proc/self/setgroups", "deny") &&
         tell("/proc/self/uid_map", user) && tell("/proc/self/gid_map", group);
}

class DiskSpace : public testing::Test {
 protected:
  // The size and the reserved bytes of a new file for which `bytes` were reserved.
  struct stat reserve(std::int64_t bytes) const {
    const std::string path = folder_ / "file";
    const OwnedFd file(::open(path.c_str(), O_WRONLY | O_CREAT, 0644));
    const Status reserved = reserve_space(file.get(), path, bytes);
    struct stat info = {};
    if (reserved.ok()) ::fstat(file.get(), &info);
    return info;
  }

  const TestDir folder_;
};

TEST_F(DiskSpace, more_than_there_is_is_refused) {
  EXPECT_TRUE(check_free_space(folder_ / "file", 1).ok());
  const Status refused = check_free_space(folder_ / "file", std::int64_t{1} << 50);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_TRUE(refused.error().message.starts_with(folder_ / "file" + " needs 1 PiB, but only "));
}

TEST_F(DiskSpace, a_reserved_file_has_its_size) { EXPECT_EQ(reserve(12345).st_size, 12345); }

// As ramfs, in a namespace of a process of its own.
TEST_F(DiskSpace, where_nothing_can_be_reserved_the_file_has_its_size_all_the_same) {
  constexpr int kNotAllowed = 77;
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (!mount_apart() || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", folder_.path().c_str(), "ramfs", 0, nullptr) != 0)
      ::_exit(kNotAllowed);
    const struct stat info = reserve(1 << 20);
    ::_exit(info.st_size == 1 << 20 && info.st_blocks == 0 ? 0 : 1);
  }
  int status = -1;
  ::waitpid(pid, &status, 0);
  if (WEXITSTATUS(status) == kNotAllowed) GTEST_SKIP() << "nothing may be mounted here";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace glint
