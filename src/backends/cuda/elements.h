// The elements of a tensor under the type names of CUDA. For host and device compilers.
#pragma once

#include <cuda_bf16.h>

#include "tensor/tensor.h"

namespace glint::cuda {

using bf16 = __nv_bfloat16;

inline bf16* bf16_data(const Tensor& tensor) { return reinterpret_cast<bf16*>(tensor.ptr<BF16>()); }

// Calls f(pointer) for a tensor that is f32 or bf16; an empty one has a null pointer.
template <class F>
void with_elements(const Tensor& tensor, F&& f) {
  if (tensor.dtype == DType::kF32) {
    f(tensor.ptr<float>());
  } else {
    f(bf16_data(tensor));
  }
}

}  // namespace glint::cuda
