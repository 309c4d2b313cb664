#include "hub/content_hash.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/test_dir.h"

namespace glint {
namespace {

TEST(ContentHash, is_what_git_and_sha256sum_say) {
  const TestDir folder;
  const std::string path = folder.write("x", "hello\n");
  bool stopped = false;
  const auto stop = [&] { return stopped; };
  EXPECT_EQ(sha256_of_file(path, stop).value(),
            "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
  EXPECT_EQ(git_oid_of_file(path, stop).value(), "ce013625030ba8dba906f756967f9e9ca394464a");
  stopped = true;
  EXPECT_EQ(sha256_of_file(path, stop).error().message, "interrupted");
  stopped = false;
  std::filesystem::remove(path);
  EXPECT_NE(sha256_of_file(path, stop).error().message.find("No such file"), std::string::npos);
}

}  // namespace
}  // namespace glint
