#include "train/round_log.h"

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/str.h"

namespace glint {

Result<RoundLog> RoundLog::open(const std::string& path, std::string_view key, std::int64_t end) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) return invalid(str("cannot create ", folder.string(), ": ", error.message()));
  RoundLog log;
  log.path_ = path;
  std::string kept;
  if (file_exists(path)) {
    GLINT_TRY(const std::string before, read_file(path));
    for (const std::string_view text : split(before, '\n')) {
      Result<Json> line = parse_json(text);
      const Json* const at = line.ok() ? line.value().find(key) : nullptr;
      if (!at || !at->is_int() || at->as_int() >= end) continue;
      kept += str(text, "\n");
      log.lines_.push_back(std::move(line).value());
    }
  }
  GLINT_TRY_STATUS(write_file_atomic(path, kept));
  return log;
}

Status RoundLog::add(Json line) {
  std::ofstream out(path_, std::ios::app);
  out << dump_json(line) << "\n" << std::flush;
  if (!out) return invalid(str("cannot write ", path_, ": is the disk full?"));
  lines_.push_back(std::move(line));
  return Ok{};
}

}  // namespace glint
