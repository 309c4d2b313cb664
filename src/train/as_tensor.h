// Numbers on the host as a tensor, for groups of ranks that move them or add them up.
#pragma once

#include <type_traits>

#include "tensor/tensor.h"

namespace glint {

// `values`, one after another in memory, outlive it: chars as u8, floats as f32, and the words of
// others, which every group can move, as i32.
template <class Values>
Tensor as_tensor(Values&& values) {
  using Value = std::remove_reference_t<decltype(*values.data())>;
  const DType dtype = sizeof(Value) == 1             ? DType::kU8
                      : std::is_same_v<Value, float> ? DType::kF32
                                                     : DType::kI32;
  const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(Value));
  return {reinterpret_cast<std::byte*>(values.data()), dtype, {bytes / size_of(dtype)}};
}

}  // namespace glint
