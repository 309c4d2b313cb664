#include "train/round_log.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/str.h"

namespace glint {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kReadAtOnce = std::int64_t{128} << 20;  // from the end

// Whether what is there begins as lines of a log do; a first line may have been cut short.
bool is_log(std::istream& file, std::string_view key) {
  const std::string beginning = str("{\"", key, "\":");
  std::string found(beginning.size(), '\0');
  file.read(found.data(), std::ssize(found));
  return beginning.starts_with(std::string_view(found).substr(0, file.gcount()));
}

}  // namespace

Result<RoundLog> RoundLog::open(const std::string& path, std::string_view key, std::int64_t end) {
  const fs::path folder = fs::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  if (error) return invalid(str("cannot create ", folder.string(), ": ", error.message()));
  RoundLog log;
  log.path_ = path;
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::app | std::ios::binary);
  if (!file) return invalid(str("cannot read and write ", path));
  if (!is_log(file, key)) {
    return invalid(str(path, " is there, and is no log of a run: its first line does not begin ",
                       "with ", quoted(key), "; move it, or name another folder for the run"));
  }
  file.clear();
  const auto size = static_cast<std::int64_t>(file.seekg(0, std::ios::end).tellg());
  std::int64_t kept = 0, begin = size;  // bytes
  while (kept == 0 && begin > 0) {
    begin = std::max(std::int64_t{0}, begin - kReadAtOnce);
    kept = log.read(file, begin, key, end);
  }
  fs::resize_file(path, static_cast<std::uintmax_t>(kept), error);
  if (error) return invalid(str("cannot write ", path, ": ", error.message()));
  return log;
}

std::int64_t RoundLog::read(std::istream& file, std::int64_t begin, std::string_view key,
                            std::int64_t end) {
  file.clear();
  file.seekg(begin);
  std::int64_t at = begin, kept = 0;
  std::string text;
  while (std::getline(file, text) && !file.eof()) {  // a last line without its end was cut short
    at += std::ssize(text) + 1;
    Result<Json> line = parse_json(text);
    const Json* const round = line.ok() ? line.value().find(key) : nullptr;
    if (!round || !round->is_int() || round->as_int() >= end) continue;
    kept = at;
    lines_.push_back(std::move(line).value());
  }
  return kept;
}

Status RoundLog::add(Json line) {
  std::ofstream out(path_, std::ios::app);
  out << dump_json(line) << "\n" << std::flush;
  if (!out) return invalid(str("cannot write ", path_, ": is the disk full?"));
  lines_.push_back(std::move(line));
  return Ok{};
}

}  // namespace glint
