// Readback: memory through which a launched step tells the host something.
#pragma once

#include <algorithm>
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
    begin(tensor.bytes().size(), device);
    add(tensor, device);
  }
  // Asks for several tensors, `bytes` in all, which lie one after another: add() each.
  void begin(std::size_t bytes, Device& device) {
    // Steps that tell more may follow.
    if (bytes > memory_.bytes()) memory_ = device.allocate_pinned(bytes + std::min(bytes, kSpare));
    GLINT_CHECK(memory_.bytes() >= bytes, "no memory for what a step tells the host");
    bytes_ = 0;
  }
  void add(const Tensor& tensor, Device& device) {
    const std::size_t more = tensor.bytes().size();
    GLINT_CHECK(bytes_ + more <= memory_.bytes(), "more is told than was said");
    if (more > 0) device.copy(memory_.data() + bytes_, tensor.data, more);
    bytes_ += more;
  }
  std::span<const std::int32_t> ints() const { return numbers<std::int32_t>(); }
  std::span<const float> floats() const { return numbers<float>(); }

 private:
  template <class T>
  std::span<const T> numbers() const {
    return {reinterpret_cast<const T*>(memory_.data()), bytes_ / sizeof(T)};
  }

  static constexpr std::size_t kSpare = 1 << 24;

  Buffer memory_;
  std::size_t bytes_ = 0;
};

}  // namespace glint
