// The log of a run: JSONL, a line a round or step, that a run which is taken up goes on with.
#pragma once

#include <functional>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace glint {

class RoundLog {
 public:
  // Makes the folder of `path`. Lines whose integer `key` is below `end` stay; those behind them
  // are of rounds that the run does again, and go. Fails if the file cannot be read or written, or
  // is no such log: its first line does not begin with `key`.
  static Result<RoundLog> open(const std::string& path, std::string_view key, std::int64_t end);

  // Writes a line, and has it on its way before it returns.
  Status add(Json line);

  // Lines that were added, and those before; of a large log the newest.
  const std::vector<Json>& lines() const { return lines_; }
  // From here on `thin` has taken some out of them; the file keeps all.
  void thin(const std::function<void(std::vector<Json>&)>& thin) { thin(lines_); }

 private:
  // Takes the lines of `file` from byte `begin` on that stay; the end of the last, 0: none does.
  std::int64_t read(std::istream& file, std::int64_t begin, std::string_view key, std::int64_t end);

  std::string path_;
  std::vector<Json> lines_;
};

}  // namespace glint
