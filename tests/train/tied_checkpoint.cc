#include "train/tied_checkpoint.h"

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shard.h"

namespace glint {

TiedCheckpoint::TiedCheckpoint(const std::string& from) {
  Json config = parse_json(read_file(from + "/config.json").value()).value();
  config.set("tie_word_embeddings", true);
  dir_.write("config.json", dump_json(config));
  const MappedFile file = MappedFile::open(from + "/model.safetensors").value();
  std::vector<TensorSpec> specs;
  std::string data;
  const std::vector<StoredTensor> all = parse_safetensors(file.bytes()).value();
  for (const StoredTensor& tensor : all) {
    if (tensor.name == "lm_head.weight") continue;
    specs.push_back({.name = tensor.name, .type = tensor.type, .shape = tensor.shape});
    data.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  }
  dir_.write("model.safetensors", shard_head(specs) + data);
}

}  // namespace glint
