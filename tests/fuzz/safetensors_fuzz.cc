// safetensors: of what parses, every tensor lies inside the file, behind the one before.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace glint;
  const auto file = std::as_bytes(std::span(data, size));
  const auto tensors = parse_safetensors(file);
  if (!tensors.ok()) {
    GLINT_CHECK(!tensors.error().message.empty(), "an error without words");
    return 0;
  }
  const std::byte* at = nullptr;
  for (const StoredTensor& tensor : tensors.value()) {
    const std::byte* begin = tensor.bytes.data();
    GLINT_CHECK(begin >= file.data() && begin + tensor.bytes.size() <= file.data() + size,
                "a tensor outside of the file");
    GLINT_CHECK(!at || begin == at, "a gap between tensors");
    GLINT_CHECK(tensor.size() * bits_of(tensor.type) / 8 == std::ssize(tensor.bytes),
                "a shape that does not fit its bytes");
    at = begin + tensor.bytes.size();
  }
  return 0;
}
