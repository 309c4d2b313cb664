#include "autograd/shadow.h"

#include <algorithm>
#include <cstring>

#include "base/str.h"

namespace glint {

void fill_zero(Device& device, std::byte* data, std::size_t bytes) {
  if (bytes == 0) return;
  if (device.is_host()) {
    std::memset(data, 0, bytes);
    return;
  }
  const std::vector<std::byte> zeros(std::min<std::size_t>(bytes, 1 << 20));
  device.copy_in(data, zeros.data(), zeros.size());
  for (std::size_t done = zeros.size(); done < bytes; done *= 2) {
    device.copy(data + done, data, std::min(done, bytes - done));
  }
}

Buffer zeroed_memory(Device& device, std::size_t bytes) {
  Buffer buffer = device.allocate(bytes);
  // The host's is zero, and pages that nothing writes to cost nothing.
  if (buffer.data() && !device.is_host()) fill_zero(device, buffer.data(), bytes);
  return buffer;
}

Tensor Shadow::of(const Tensor& x) {
  GLINT_CHECK(x.dtype == DType::kF32 || x.dtype == DType::kBF16, "no gradient of " + x.describe());
  const std::span<const Buffer> memory = arena_.chunks();
  chunks_.resize(memory.size());
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const std::ptrdiff_t at = x.data - memory[i].data();
    if (at < 0 || at >= static_cast<std::ptrdiff_t>(memory[i].bytes())) continue;
    const bool is_f32 = x.dtype == DType::kF32;
    const int scale = is_f32 ? 1 : 2;
    Buffer& gradients = is_f32 ? chunks_[i].of_f32 : chunks_[i].of_bf16;
    if (!gradients.data()) gradients = zeroed_memory(arena_.device(), scale * memory[i].bytes());
    GLINT_CHECK(gradients.data(),
                str("no memory for ", human_bytes(scale * memory[i].bytes()), " of gradients"));
    Tensor gradient = x;
    gradient.dtype = DType::kF32;
    gradient.data = gradients.data() + scale * at;
    return gradient;
  }
  GLINT_CHECK(false, "no gradient of " + x.describe() + ", which lies outside the arena");
}

bool Shadow::reserve() {
  const std::span<const Buffer> memory = arena_.chunks();
  chunks_.resize(memory.size());
  for (std::size_t i = 0; i < memory.size(); ++i) {
    for (const auto& [gradients, scale] :
         {std::pair(&chunks_[i].of_f32, 1), std::pair(&chunks_[i].of_bf16, 2)}) {
      if (gradients->bytes() >= scale * memory[i].bytes()) continue;
      *gradients = {};
      *gradients = zeroed_memory(arena_.device(), scale * memory[i].bytes());
      if (!gradients->data()) return false;
    }
  }
  return true;
}

Tensor Shadow::add_to(const Tensor& x) {
  set_live(x);
  return of(x);
}

void Shadow::set_live(const Tensor& x) {
  if (x.size() > 0) live_.emplace_back(x.data, end_of(x));
}

bool Shadow::is_live(const Tensor& x) const {
  if (x.size() == 0) return false;
  return std::any_of(live_.begin(), live_.end(), [&](const auto& interval) {
    return interval.first < end_of(x) && x.data < interval.second;
  });
}

std::string Shadow::find_remains(const Tensor& except) {
  Tensor skipped = except;
  if (except) skipped = of(except);
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    for (const Buffer* buffer : {&chunks_[i].of_f32, &chunks_[i].of_bf16}) {
      const auto* const values = reinterpret_cast<const float*>(buffer->data());
      for (std::size_t j = 0; j < buffer->bytes() / sizeof(float); ++j) {
        if (values[j] == 0) continue;
        const auto* const at = reinterpret_cast<const std::byte*>(values + j);
        if (except && at >= skipped.data && at < end_of(skipped)) continue;
        return str("the gradient at byte ", j * sizeof(float), " of chunk ", i, " is still ",
                   values[j], " after its backward pass");
      }
    }
  }
  return "";
}

}  // namespace glint
