#include "cli/apart.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/test_dir.h"

namespace glint {
namespace {

namespace fs = std::filesystem;

class Apart : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"ids.txt", "model/config.json", "model/notes.txt"})
      dir_.write(name, "1 2 3");
  }

  std::string at(const std::string& name) const { return dir_ / name; }

  // The sentence that refuses `out` beside --ids and MODEL; empty if nothing does.
  std::string refused(const std::string& out) const {
    const Status status =
        check_apart({{"--ids", at("ids.txt")}, {"MODEL", at("model")}}, {{"--out", out}});
    return status.ok() ? "" : status.error().message;
  }

  const TestDir dir_;
};

TEST_F(Apart, a_result_is_not_written_over_what_is_read_by_any_name) {
  fs::create_symlink("ids.txt", at("link"));
  fs::create_hard_link(at("ids.txt"), at("second"));
  for (const char* name : {"ids.txt", "./model/../ids.txt", "link", "second"}) {
    EXPECT_EQ(refused(at(name)),
              "--out is \"" + at(name) + "\", the same file as --ids; name another file for --out");
  }
  EXPECT_EQ(refused(at("out.txt")), "");
  EXPECT_EQ(refused(""), "");
}

TEST_F(Apart, a_result_is_not_written_over_a_file_of_the_model) {
  fs::create_symlink("model/config.json", at("link"));
  for (const char* name : {"model/config.json", "link"}) {
    EXPECT_EQ(refused(at(name)),
              "--out is \"" + at(name) + "\", a file of MODEL; name another file for --out");
  }
  EXPECT_EQ(refused(at("model/notes.txt")), "");
  EXPECT_EQ(refused(at("model/new.safetensors")), "");
}

TEST_F(Apart, two_results_have_files_of_their_own) {
  const Status status = check_apart({}, {{"--html", at("x")}, {"--out", at("./x")}});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message,
            "--out is \"" + at("./x") + "\", the same file as --html; name another file for --out");
  EXPECT_TRUE(check_apart({}, {{"--html", at("x")}, {"--out", at("y")}}).ok());
  EXPECT_TRUE(check_apart({}, {{"--html", ""}, {"--out", ""}}).ok());
}

}  // namespace
}  // namespace glint
