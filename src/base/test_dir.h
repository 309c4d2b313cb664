// For tests: a directory of a test's own, which goes away with it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/str.h"

namespace glint {

class TestDir {
 public:
  TestDir() : path_(testing::TempDir() + "glint-XXXXXX") {
    EXPECT_NE(::mkdtemp(path_.data()), nullptr) << path_;
  }
  ~TestDir() { std::filesystem::remove_all(path_); }
  TestDir(const TestDir&) = delete;
  TestDir& operator=(const TestDir&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return str(path_, "/", name); }
  std::string write(std::string_view name, std::string_view contents) const {
    const std::string path = *this / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    EXPECT_TRUE(std::ofstream(path, std::ios::binary) << contents << std::flush) << path;
    return path;
  }

 private:
  std::string path_;
};

}  // namespace glint
