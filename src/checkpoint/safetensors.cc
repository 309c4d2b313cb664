#include "checkpoint/safetensors.h"

#include <algorithm>
#include <filesystem>

#include "base/contains.h"
#include "base/json.h"
#include "base/str.h"
#include "checkpoint/shard.h"

namespace glint {
namespace {

namespace fs = std::filesystem;

// Converters that copy the draft layer into a file of its own are known to leave it out of the
// index.
constexpr const char* kMtpName = "mtp.safetensors";

struct Index {
  std::vector<std::string> shards;                                 // sorted
  std::vector<std::pair<std::string, std::string>> shard_of_name;  // tensor -> shard
};

Result<Index> read_index(const std::string& path) {
  GLINT_TRY(const Json json, read_json_file(path, {.max_depth = 8,
                                                   .allow_duplicate_keys = false,
                                                   .max_values = std::size_t{1} << 22}));
  const Json* map = json.find("weight_map");
  if (!map || !map->is_object() || map->as_object().empty()) {
    return invalid(path + ": weight_map is missing; expected an object from tensor to shard");
  }
  Index index;
  for (const auto& [name, shard] : map->as_object()) {
    // A shard lies beside its index; anything else would read files that nobody meant.
    if (!shard.is_string() || shard.as_string().empty() ||
        shard.as_string().find_first_of(std::string_view("/\0", 2)) != std::string::npos) {
      return invalid(str(path, ": weight_map gives tensor ", quoted(name), " ",
                         shard.is_string() ? quoted(shard.as_string()) : shard.kind(),
                         "; expected the name of a file"));
    }
    index.shard_of_name.emplace_back(name, shard.as_string());
    index.shards.push_back(shard.as_string());
  }
  std::sort(index.shards.begin(), index.shards.end());
  index.shards.erase(std::unique(index.shards.begin(), index.shards.end()), index.shards.end());
  return index;
}

// Sorted names of the *.safetensors in `dir`.
Result<std::vector<std::string>> list_files(const std::string& dir) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (name.ends_with(".safetensors")) names.push_back(std::move(name));
  }
  if (error) {
    return not_found(str("cannot list ", dir, ": ", error.message()));
  }
  if (names.empty()) {
    return not_found(dir + " holds no weights; expected model.safetensors or " + kShardIndexName);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

Result<std::unique_ptr<SafetensorsSource>> SafetensorsSource::open(const std::string& dir) {
  std::unique_ptr<SafetensorsSource> source(new SafetensorsSource);
  Index index;
  const std::string index_path = dir + "/" + kShardIndexName;
  if (is_present(index_path)) {
    GLINT_TRY(index, read_index(index_path));
    for (const std::string& shard : index.shards) {
      if (is_present(dir + "/" + shard)) continue;
      return not_found(str(index_path, " names shard ", quoted(shard), ", which is not there"));
    }
    const auto& shards = index.shards;
    const bool is_named = contains(shards, kMtpName);
    if (!is_named && is_present(str(dir, "/", kMtpName))) index.shards.emplace_back(kMtpName);
  } else if (is_present(dir + "/model.safetensors")) {
    index.shards = {"model.safetensors"};
  } else {
    GLINT_TRY(index.shards, list_files(dir));
  }
  for (const std::string& shard : index.shards) {
    GLINT_TRY_STATUS(source->add_file(dir + "/" + shard));
  }
  source->name_ = source->files_.size() == 1 ? source->file_name(0) : dir;
  GLINT_TRY_STATUS(source->index_names());
  for (const auto& [name, shard] : index.shard_of_name) {
    const StoredTensor* tensor = source->find(name);
    if (tensor && source->file_name(tensor->file) == dir + "/" + shard) continue;
    return invalid(str(index_path, " says that tensor ", quoted(name), " is in ", quoted(shard),
                       ", which does not hold it"));
  }
  return source;
}

bool SafetensorsSource::any_in(const std::string& dir) { return list_files(dir).ok(); }

Status SafetensorsSource::add_file(const std::string& path) {
  GLINT_TRY(MappedFile file, MappedFile::open(path));
  GLINT_TRY(std::vector<StoredTensor> tensors, parse_safetensors(file.bytes()).in(path));
  for (StoredTensor& tensor : tensors) {
    tensor.file = static_cast<int>(files_.size());
    tensors_.push_back(std::move(tensor));
  }
  files_.push_back(std::move(file));
  return Ok{};
}

Status SafetensorsSource::index_names() {
  by_name_.reserve(tensors_.size());
  for (const StoredTensor& tensor : tensors_) {
    const auto [at, is_new] = by_name_.emplace(tensor.name, &tensor);
    if (is_new) continue;
    return invalid(str("tensor ", quoted(tensor.name), " is in both ", file_name(at->second->file),
                       " and ", file_name(tensor.file)));
  }
  return Ok{};
}

const StoredTensor* SafetensorsSource::find(std::string_view name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : at->second;
}

const std::string& SafetensorsSource::file_name(int file) const {
  return files_[static_cast<std::size_t>(file)].path();
}

}  // namespace glint
