// Vectors of every token's heads, as attention's kernels read and write them.
#pragma once

#include "tensor/tensor.h"

namespace glint::cuda {

template <class T>
struct Heads {
  T* data;
  std::int64_t token_stride, head_stride;

  __device__ T* row(std::int64_t token, std::int64_t head) const {
    return data + token * token_stride + head * head_stride;
  }
};
// For x [T, H, D].
template <class T>
Heads<T> heads_of(const Tensor& x) {
  return {reinterpret_cast<T*>(x.data), x.stride[0], x.stride[1]};
}

}  // namespace glint::cuda
