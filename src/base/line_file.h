// Files with an item a line, as data sets and prompts are.
#pragma once

#include <memory>

#include "base/file.h"
#include "base/str.h"

namespace glint {

struct LineFile {
  struct Line {
    std::string_view text;  // without its end
    int number = 0;         // from 1
  };
  std::string path;
  std::unique_ptr<const std::string> contents;  // where it stays when this is moved
  std::vector<Line> lines;                      // those that are not blank

  // For errors about `line`.
  std::string where(const Line& line) const { return str(path, ", line ", line.number); }
};

inline Result<LineFile> read_lines(const std::string& path) {
  constexpr std::size_t kMaxBytes = std::size_t{8} << 30;
  GLINT_TRY(std::string contents, read_file(path, kMaxBytes));
  LineFile file = {path, std::make_unique<const std::string>(std::move(contents)), {}};
  int number = 0;
  for (std::string_view line : split(*file.contents, '\n')) {
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!trimmed(line).empty()) file.lines.push_back({line, number});
  }
  return file;
}

}  // namespace glint
