// TensorSource: named tensors in memory, as a file format stores them. safetensors.h maps files;
// the synthetic model (model/synthetic.h) makes them up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"

namespace glint {

// The element types of safetensors. Files may hold any of them; weights are made from few.
enum class StoredType : std::uint8_t {
  kBool,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kI64,
  kU64,
  kF64,
  kC64,
  kF4,
  kF6E2M3,
  kF6E3M2,
};

const char* name_of(StoredType type);  // "BF16", as safetensors spells it
int bits_of(StoredType type);
std::optional<StoredType> parse_stored_type(std::string_view name);
std::optional<DType> to_dtype(StoredType type);  // none: nothing in glint computes with it

struct StoredTensor {
  std::string name = {};
  StoredType type = StoredType::kF32;
  std::vector<std::int64_t> shape = {};   // any rank; product and size fit in int64
  std::span<const std::byte> bytes = {};  // row-major; not aligned to anything
  int file = 0;                           // index for TensorSource::file_name

  std::int64_t size() const;     // elements
  std::string describe() const;  // "BF16 [8, 6144]"
};

std::string describe_shape(std::span<const std::int64_t> shape);  // "[8, 6144]"

class TensorSource {
 public:
  virtual ~TensorSource() = default;

  // In the order in which they lie in their files.
  virtual std::span<const StoredTensor> tensors() const = 0;
  // Null if there is none.
  virtual const StoredTensor* find(std::string_view name) const = 0;
  // The file of a tensor, for error messages.
  virtual const std::string& file_name(int file) const = 0;
  // The whole source, for error messages: its only file, or its directory.
  virtual const std::string& name() const = 0;
  // Whether it has one rank's parts of what ranks divide, each as a tensor of the part's shape.
  virtual bool is_of_rank() const { return false; }
};

}  // namespace glint
