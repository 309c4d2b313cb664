// A tree of files in place of a machine's own, for tests of what reads those.
#pragma once

#include <filesystem>
#include <string>

#include "base/test_dir.h"

namespace glint {

class FakeRoot : public TestDir {
 public:
  void link(const std::string& name, const std::string& target) const {
    std::filesystem::create_directories(std::filesystem::path(root + name).parent_path());
    std::filesystem::create_symlink(target, root + name);
  }
  void program(const std::string& name, const std::string& script) const {
    std::filesystem::permissions(write(name, "#!/bin/sh\n" + script),
                                 std::filesystem::perms::owner_all);
  }

  const std::string root = path();
};

}  // namespace glint
