#include "cli/apart.h"

#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/contains.h"
#include "base/str.h"
#include "checkpoint/shard.h"

namespace glint {
namespace {

namespace fs = std::filesystem;

// Also where neither is there yet.
bool are_same(const std::string& a, const std::string& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;
  const auto full = [&](const std::string& path) {
    return fs::weakly_canonical(fs::absolute(path, error), error);
  };
  return full(a) == full(b);
}

bool is_of_checkpoint(const fs::path& file) {
  constexpr std::string_view kNames[] = {
      "config.json",           "generation_config.json", "hf_quant_config.json", "tokenizer.json",
      "tokenizer_config.json", "chat_template.jinja",    "vocab.json",           "merges.txt",
      kShardIndexName};
  return file.extension() == ".safetensors" || contains(kNames, file.filename().string());
}

bool is_file_of(const std::string& dir, const std::string& path) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dir, error)) {
    if (is_of_checkpoint(entry.path()) && are_same(entry.path().string(), path)) return true;
  }
  return false;
}

Error not_apart(const NamedPath& written, const std::string& what) {
  return invalid(str(written.option, " is ", quoted_path(written.path), ", ", what,
                     "; name another file for ", written.option));
}

Status check_against(const NamedPath& read, const NamedPath& written) {
  if (read.path.empty() || written.path.empty()) return Ok{};
  if (are_same(read.path, written.path))
    return not_apart(written, "the same file as " + read.option);
  if (is_file_of(read.path, written.path)) return not_apart(written, "a file of " + read.option);
  return Ok{};
}

}  // namespace

Status check_apart(const std::vector<NamedPath>& read, const std::vector<NamedPath>& written) {
  for (std::size_t i = 0; i < written.size(); ++i) {
    for (const NamedPath& one : read) GLINT_TRY_STATUS(check_against(one, written[i]));
    for (std::size_t before = 0; before < i; ++before)
      GLINT_TRY_STATUS(check_against(written[before], written[i]));
  }
  return Ok{};
}

}  // namespace glint
