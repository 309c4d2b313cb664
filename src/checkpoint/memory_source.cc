#include "checkpoint/memory_source.h"

#include "base/check.h"

namespace glint {

MemorySource::MemorySource(std::string name, std::vector<StoredTensor> tensors, bool is_of_rank)
    : name_(std::move(name)), tensors_(std::move(tensors)), is_of_rank_(is_of_rank) {
  for (const StoredTensor& tensor : tensors_) {
    GLINT_CHECK(by_name_.emplace(tensor.name, &tensor).second, "two tensors of one name");
  }
}

const StoredTensor* MemorySource::find(std::string_view name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : at->second;
}

}  // namespace glint
