#include "checkpoint/tensor_source.h"

#include "base/str.h"

namespace glint {
namespace {

struct TypeInfo {
  const char* name;
  int bits;
  std::optional<DType> dtype;
};

// In the order of StoredType.
constexpr TypeInfo kTypes[] = {
    {"BOOL", 8, {}},
    {"U8", 8, DType::kU8},
    {"I8", 8, {}},
    {"F8_E5M2", 8, {}},
    {"F8_E4M3", 8, DType::kF8E4M3},
    {"F8_E8M0", 8, {}},
    {"I16", 16, {}},
    {"U16", 16, {}},
    {"F16", 16, {}},
    {"BF16", 16, DType::kBF16},
    {"I32", 32, DType::kI32},
    {"U32", 32, {}},
    {"F32", 32, DType::kF32},
    {"I64", 64, {}},
    {"U64", 64, {}},
    {"F64", 64, {}},
    {"C64", 64, {}},
    {"F4", 4, {}},
    {"F6_E2M3", 6, {}},
    {"F6_E3M2", 6, {}},
};
static_assert(std::size(kTypes) == static_cast<std::size_t>(StoredType::kF6E3M2) + 1);

const TypeInfo& info(StoredType type) { return kTypes[static_cast<std::size_t>(type)]; }

}  // namespace

const char* name_of(StoredType type) { return info(type).name; }
int bits_of(StoredType type) { return info(type).bits; }
std::optional<DType> to_dtype(StoredType type) { return info(type).dtype; }

std::optional<StoredType> parse_stored_type(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kTypes); ++i) {
    if (name == kTypes[i].name) return static_cast<StoredType>(i);
  }
  return {};
}

std::int64_t StoredTensor::size() const {
  std::int64_t n = 1;
  for (const std::int64_t dim : shape) n *= dim;
  return n;
}

std::string StoredTensor::describe() const {
  return str(name_of(type), " ", describe_shape(shape));
}

std::string describe_shape(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i == 8) return text + ", ...]";
    if (i) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

}  // namespace glint
