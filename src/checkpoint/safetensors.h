// Reading safetensors: an 8-byte length, a JSON header, and the tensors' bytes without gaps.
//
// Files are mapped, never read as a whole, and trusted in nothing: every offset is checked before a
// byte behind it is looked at.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "checkpoint/tensor_source.h"

namespace glint {

// The tensors of one file's bytes, in the order of their offsets. Refuses, naming the tensor: a
// file that is cut short or longer than its header says, a name that repeats, an unknown dtype, a
// shape that does not fit its bytes, offsets that overlap or leave gaps. The names in the result
// are copies; the bytes point into `file`.
Result<std::vector<StoredTensor>> parse_safetensors(std::span<const std::byte> file);

// The tensors of a checkpoint directory: of the files that model.safetensors.index.json names, else
// of model.safetensors, else of every *.safetensors there.
class SafetensorsSource : public TensorSource {
 public:
  // Also refuses: a directory without any, a shard that the index names and that is not there, a
  // tensor that is not in the shard that the index says, a tensor that is in two files.
  static Result<std::unique_ptr<SafetensorsSource>> open(const std::string& dir);
  // False: `dir` holds no *.safetensors; an index alone comes with the small files of a model.
  static bool any_in(const std::string& dir);

  std::span<const StoredTensor> tensors() const override { return tensors_; }
  const StoredTensor* find(std::string_view name) const override;
  const std::string& file_name(int file) const override;
  const std::string& name() const override { return name_; }

 private:
  SafetensorsSource() = default;
  Status add_file(const std::string& path);
  Status index_names();

  std::string name_;
  std::vector<MappedFile> files_;
  std::vector<StoredTensor> tensors_;
  std::unordered_map<std::string_view, const StoredTensor*> by_name_;
};

}  // namespace glint
