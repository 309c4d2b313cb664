// Values between the host and a device, as whole tensors.
#pragma once

#include <cstring>
#include <initializer_list>
#include <utility>
#include <vector>

#include "base/ceil_div.h"
#include "tensor/arena.h"
#include "tensor/tensor.h"

namespace glint {

// `values` as a tensor of shape `dims` in memory of `arena`; they may be gone when this returns.
template <class T>
Tensor upload(const std::vector<T>& values, std::initializer_list<std::int64_t> dims,
              Arena& arena) {
  const Tensor tensor = arena.take(kDTypeOf<T>, dims);
  if (!values.empty()) {
    arena.device().copy_in(tensor.data, values.data(), values.size() * sizeof(T));
  }
  return tensor;
}

// Arrays of 4-byte numbers that go to a device together, in one copy.
class Uploads {
 public:
  explicit Uploads(Arena& arena) : arena_(arena) {}

  // `values` as a tensor of shape `dims`, which send() puts into `*to`.
  template <class T>
  void add(const std::vector<T>& values, std::initializer_list<std::int64_t> dims, Tensor* to) {
    static_assert(sizeof(T) == 4);
    *to = Tensor(nullptr, kDTypeOf<T>, dims);
    begins_.emplace_back(to, words_.size());
    const std::size_t begin = words_.size();
    words_.resize(begin + round_up(values.size(), kAligned));
    if (!values.empty())
      std::memcpy(words_.data() + begin, values.data(), values.size() * sizeof(T));
  }
  // The tensors live in the arena's present scope.
  void send() {
    const Tensor all = upload(words_, {static_cast<std::int64_t>(words_.size())}, arena_);
    for (const auto& [tensor, begin] : begins_) tensor->data = all.data + 4 * begin;
  }

 private:
  static constexpr std::size_t kAligned = 64;  // words: the arena's 256 bytes

  Arena& arena_;
  std::vector<std::int32_t> words_;
  std::vector<std::pair<Tensor*, std::size_t>> begins_;
};

// All of a dense tensor of T, row by row. Waits for the ops before it.
template <class T>
std::vector<T> download(const Tensor& dense, Device& device) {
  std::vector<T> values(static_cast<std::size_t>(dense.size()));
  if (!values.empty()) device.copy_out(values.data(), dense.data, values.size() * sizeof(T));
  return values;
}

}  // namespace glint
