// Readback: memory through which a launched step tells the host something.
#pragma once

#include <span>

#include "tensor/device.h"
#include "tensor/tensor.h"

namespace glint {

// A copy of a device's tensor in memory of the host, which is there when an event has passed.
class Readback {
 public:
  // Asks for `tensor`, which is dense, after the ops so far. What was asked for before must have
  // been read.
  void ask(const Tensor& tensor, Device& device) {
    bytes_ = static_cast<std::size_t>(tensor.size()) * size_of(tensor.dtype);
    if (bytes_ > memory_.bytes()) memory_ = device.allocate_pinned(2 * bytes_);
    GLINT_CHECK(memory_.bytes() >= bytes_, "no memory for what a step tells the host");
    if (bytes_ > 0) device.copy(memory_.data(), tensor.data, bytes_);
  }
  std::span<const std::int32_t> ints() const { return numbers<std::int32_t>(); }
  std::span<const float> floats() const { return numbers<float>(); }

 private:
  template <class T>
  std::span<const T> numbers() const {
    return {reinterpret_cast<const T*>(memory_.data()), bytes_ / sizeof(T)};
  }

  Buffer memory_;
  std::size_t bytes_ = 0;
};

}  // namespace glint
