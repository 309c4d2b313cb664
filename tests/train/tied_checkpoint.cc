#include "train/tied_checkpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shard.h"

namespace glint {

TiedCheckpoint::TiedCheckpoint(const std::string& from)
    : dir_(str(testing::TempDir(), "/glint_tied_", ::getpid(), "_",
               std::filesystem::path(from).filename().string())) {
  std::filesystem::create_directories(dir_);
  Json config = parse_json(read_file(from + "/config.json").value()).value();
  config.set("tie_word_embeddings", true);
  std::ofstream(dir_ + "/config.json") << dump_json(config);
  const MappedFile file = MappedFile::open(from + "/model.safetensors").value();
  std::vector<TensorSpec> specs;
  std::string data;
  const std::vector<StoredTensor> all = parse_safetensors(file.bytes()).value();
  for (const StoredTensor& tensor : all) {
    if (tensor.name == "lm_head.weight") continue;
    specs.push_back({.name = tensor.name, .type = tensor.type, .shape = tensor.shape});
    data.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  }
  std::ofstream(dir_ + "/model.safetensors", std::ios::binary) << shard_head(specs) << data;
}

TiedCheckpoint::~TiedCheckpoint() { std::filesystem::remove_all(dir_); }

}  // namespace glint
