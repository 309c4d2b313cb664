#include "checkpoint/other_files.h"

#include <filesystem>

#include "base/contains.h"
#include "base/file.h"
#include "base/str.h"
#include "checkpoint/shard.h"

namespace glint {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxCopiedFile = std::size_t{1} << 30;

bool is_copied(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  constexpr std::string_view kOurs[] = {"config.json", "hf_quant_config.json", kShardIndexName,
                                        "glint_quantize.json"};
  constexpr std::string_view kWeights[] = {".safetensors", ".bin",  ".pt", ".pth",
                                           ".gguf",        ".onnx", ".h5", ".msgpack"};
  // Files of the tokenizer are not left out in silence: reading one says what is wrong.
  constexpr std::string_view kNeeded[] = {"tokenizer.json", "tokenizer_config.json",
                                          "chat_template.jinja", "generation_config.json"};
  if (contains(kNeeded, name)) return true;
  const std::string path = entry.path().string();
  std::error_code error;
  if (name.starts_with(".") || is_directory(path)) return false;
  if (file_exists(path) && entry.file_size(error) > kMaxCopiedFile) return false;
  return !contains(kOurs, name) && !contains(kWeights, entry.path().extension().string());
}

}  // namespace

std::vector<std::string> files_to_copy(const std::string& dir) {
  std::vector<std::string> names;
  std::error_code error;
  for (const char* folder : {"", "additional_chat_templates/"}) {
    for (const auto& entry : fs::directory_iterator(str(dir, "/", folder), error)) {
      if (is_copied(entry)) names.push_back(folder + entry.path().filename().string());
    }
  }
  return names;
}

Result<OtherFiles> read_other_files(const std::string& dir) {
  OtherFiles files;
  for (const std::string& name : files_to_copy(dir)) {
    GLINT_TRY(files[name], read_file(str(dir, "/", name), kMaxCopiedFile));
  }
  return files;
}

Status write_other_files(const OtherFiles& files, const std::string& to) {
  for (const auto& [name, contents] : files) {
    const std::string path = str(to, "/", name);
    std::error_code error;  // writing will say it
    fs::create_directories(fs::path(path).parent_path(), error);
    GLINT_TRY_STATUS(write_file_atomic(path, contents));
  }
  return Ok{};
}

}  // namespace glint
