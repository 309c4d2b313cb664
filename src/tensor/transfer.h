// Values between the host and a device, as whole tensors.
#pragma once

#include <initializer_list>
#include <vector>

#include "tensor/arena.h"
#include "tensor/tensor.h"

namespace glint {

// `values` as a tensor of shape `dims` in memory of `arena`; they may be gone when this returns.
template <class T>
Tensor upload(const std::vector<T>& values, std::initializer_list<std::int64_t> dims,
              Arena& arena) {
  const Tensor tensor = arena.take(kDTypeOf<T>, dims);
  arena.device().copy_in(tensor.data, values.data(), values.size() * sizeof(T));
  return tensor;
}

// All of a dense tensor of T, row by row. Waits for the ops before it.
template <class T>
std::vector<T> download(const Tensor& dense, Device& device) {
  std::vector<T> values(static_cast<std::size_t>(dense.size()));
  device.copy_out(values.data(), dense.data, values.size() * sizeof(T));
  return values;
}

}  // namespace glint
