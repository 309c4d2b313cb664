#include "tensor/arena.h"

#include <algorithm>

#include "base/str.h"

namespace glint {

Tensor Arena::take(DType dtype, std::initializer_list<std::int64_t> dims) {
  Tensor tensor(nullptr, dtype, dims);
  const std::size_t bytes =
      (static_cast<std::size_t>(tensor.size()) * size_of(dtype) + 255) / 256 * 256;
  while (chunk_ < chunks_.size() && used_ + bytes > chunks_[chunk_].bytes()) ++chunk_, used_ = 0;
  if (chunk_ == chunks_.size()) {
    constexpr std::size_t kChunk = std::size_t{32} << 20;
    chunks_.push_back(device_.allocate(std::max(bytes, kChunk)));
    GLINT_CHECK(chunks_.back().data(),
                str("no memory for ", human_bytes(bytes), " of temporaries"));
  }
  tensor.data = chunks_[chunk_].data() + used_;
  used_ += bytes;
  taken_ += bytes;
  high_water_ = std::max(high_water_, taken_);
  return tensor;
}

Tensor Arena::take_padded(DType dtype, std::initializer_list<std::int64_t> dims) {
  Tensor tensor(nullptr, dtype, dims);
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  tensor.stride[0] = device_.row_pitch(tensor.stride[0] * size) / size;
  tensor.data = take(dtype, {tensor.shape[0], tensor.stride[0]}).data;
  return tensor;
}

bool Arena::reserve(std::size_t bytes) {
  GLINT_CHECK(taken_ == 0, "an arena in use is to be reserved");
  chunk_ = used_ = 0;
  if (!chunks_.empty() && chunks_[0].bytes() >= bytes) return true;
  chunks_.clear();
  Buffer memory = device_.allocate(bytes);
  if (!memory.data()) return false;
  chunks_.push_back(std::move(memory));
  return true;
}

std::size_t Arena::bytes_held() const {
  std::size_t bytes = 0;
  for (const Buffer& chunk : chunks_) bytes += chunk.bytes();
  return bytes;
}

}  // namespace glint
