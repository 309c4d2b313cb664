// MemorySource: a checkpoint's tensors in memory, as a trainer or a synthetic model has them.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoint/tensor_source.h"

namespace glint {

// Views of memory that the caller, or a derived class, owns.
class MemorySource : public TensorSource {
 public:
  // `name` is what error messages call it. Names of tensors are distinct.
  MemorySource(std::string name, std::vector<StoredTensor> tensors, bool is_of_rank = false);
  MemorySource(const MemorySource&) = delete;
  MemorySource& operator=(const MemorySource&) = delete;

  std::span<const StoredTensor> tensors() const override { return tensors_; }
  const StoredTensor* find(std::string_view name) const override;
  const std::string& file_name(int) const override { return name_; }
  const std::string& name() const override { return name_; }
  bool is_of_rank() const override { return is_of_rank_; }

 private:
  const std::string name_;
  const std::vector<StoredTensor> tensors_;
  const bool is_of_rank_;
  std::unordered_map<std::string_view, const StoredTensor*> by_name_;
};

}  // namespace glint
