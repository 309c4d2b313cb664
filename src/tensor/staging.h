// Staging: copies from any host memory, such as mapped files, to a device. The host's threads fill
// one of two pinned buffers while the other is on its way.
#pragma once

#include <array>

#include "tensor/device.h"

namespace glint {

class ThreadPool;

class Staging {
 public:
  // `buffer_bytes` of pinned memory twice, or, where there is none, no buffers: then copies wait.
  Staging(Device& device, ThreadPool& threads, std::size_t buffer_bytes = std::size_t{32} << 20);
  // Waits for what is on its way, whose buffers are freed.
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Ordered with the device's work; `from` may be gone when the call returns.
  void copy(void* to, const void* from, std::size_t bytes);

 private:
  struct Half {
    Buffer memory;
    Event sent;  // what was copied out of it last
  };
  void fill(std::byte* to, const std::byte* from, std::size_t bytes);

  Device& device_;
  ThreadPool& threads_;
  std::array<Half, 2> halves_;
  std::size_t half_ = 0, used_ = 0;  // the one being filled, and how far
};

}  // namespace glint
