// The files by which Linux tells what a machine is: /proc, /sys, and where libraries lie; below a
// root, so that tests look at trees of other machines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace glint {

// Nothing here fails: what cannot be read is empty. Files are read to 4 MiB, folders to 65,536
// names.
class MachineFiles {
 public:
  explicit MachineFiles(std::string root = {}) : root_(std::move(root)) {}

  const std::string& root() const { return root_; }  // empty: this machine
  std::string at(std::string_view path) const { return root_ + std::string(path); }

  bool exists(std::string_view path) const;
  std::string text(std::string_view path) const;
  std::string line(std::string_view path) const;  // the first, without blanks around it
  std::optional<std::int64_t> number(std::string_view path) const;  // that line, in decimal
  std::vector<std::string> names(std::string_view folder) const;    // sorted, without . and ..
  std::string link(std::string_view path) const;                    // what a symbolic link says
  // The number after `key` in a file of lines such as "MemTotal:  24684084 kB".
  std::optional<std::int64_t> number_after(std::string_view path, std::string_view key) const;

 private:
  std::string root_;
};

}  // namespace glint
