// A tree of files in place of a machine's own, for tests of what reads those.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/str.h"

namespace glint {

class FakeRoot {
 public:
  FakeRoot() {
    static int count = 0;
    root = testing::TempDir() + str("glint-machine-", ::getpid(), "-", ++count);
    std::filesystem::create_directories(root);
  }
  ~FakeRoot() { std::filesystem::remove_all(root); }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;

  void write(const std::string& path, const std::string& text) const {
    make_folder_of(path);
    std::ofstream(root + path, std::ios::binary) << text;
  }
  void link(const std::string& path, const std::string& target) const {
    make_folder_of(path);
    std::filesystem::create_symlink(target, root + path);
  }
  void program(const std::string& path, const std::string& script) const {
    write(path, "#!/bin/sh\n" + script);
    std::filesystem::permissions(root + path, std::filesystem::perms::owner_all);
  }

  std::string root;

 private:
  void make_folder_of(const std::string& path) const {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
  }
};

}  // namespace glint
