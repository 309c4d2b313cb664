#include "backends/cuda/testing/device_values.h"

namespace glint::cuda {

std::vector<std::byte> bytes_of(Device& device, const Tensor& dense) {
  std::vector<std::byte> bytes(dense.size() * size_of(dense.dtype));
  device.copy_out(bytes.data(), dense.data, bytes.size());
  return bytes;
}

std::string compare_bits(Device& device, const char* what, const Tensor& got,
                         const Tensor& wanted) {
  const auto a = bytes_of(device, got), b = bytes_of(device, wanted);
  GLINT_CHECK(a.size() == b.size(), "compared tensors have one shape");
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) return str(what, " differs at element ", i / size_of(got.dtype));
  }
  return "";
}

}  // namespace glint::cuda
