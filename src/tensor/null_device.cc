#include "tensor/null_device.h"

#include <algorithm>
#include <cstdint>

namespace glint {

Buffer NullDevice::allocate(std::size_t bytes) {
  constexpr std::uintptr_t kFirst = std::uintptr_t{1} << 60;  // where no program has memory
  void* const data = reinterpret_cast<void*>(kFirst + allocated_);
  allocated_ += (std::max<std::size_t>(bytes, 1) + 255) / 256 * 256;
  return Buffer(data, bytes, [](void*, std::size_t) {});
}

std::unique_ptr<Graph> NullDevice::capture(const std::function<void()>& run) {
  run();
  return nullptr;
}

}  // namespace glint
