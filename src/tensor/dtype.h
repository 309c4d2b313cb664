// Element types of tensors, and BF16 as scalar code.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "base/check.h"

namespace glint {

enum class DType : std::uint8_t { kF32, kBF16, kF8E4M3, kU8, kI32 };

constexpr int size_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
      return 2;
    case DType::kF8E4M3:
    case DType::kU8:
      return 1;
  }
  return 0;
}

// The name that safetensors uses: "F32", "BF16", "F8_E4M3", "U8", "I32".
const char* name_of(DType dtype);

// The upper half of an f32. Storage only: compute in float.
struct BF16 {
  std::uint16_t bits;
};

// Round to nearest even; NaN stays NaN.
inline BF16 to_bf16(float value) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(value);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((u >> 16) | 0x40)};
  return {static_cast<std::uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16)};
}
inline float to_float(BF16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}
inline float to_float(float value) { return value; }

// IEEE half precision, which only files hold, exactly: multiplying by 2^112 moves the bias of the
// exponent from 15 to 127, and makes subnormal halves normal.
inline float f16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16, magnitude = (bits & 0x7fffu) << 13;
  if (magnitude >= 0x0f800000u) return std::bit_cast<float>(sign | 0x70000000u | magnitude);
  return std::bit_cast<float>(
      sign | std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f));
}

// `value` as a T, which is float or BF16: the one rounding at the end of an op.
template <class T>
T from_float(float value) {
  if constexpr (std::is_same_v<T, BF16>) {
    return to_bf16(value);
  } else {
    return value;
  }
}

template <class T>
inline constexpr DType kDTypeOf = [] {
  if constexpr (std::is_same_v<T, float>) return DType::kF32;
  if constexpr (std::is_same_v<T, BF16>) return DType::kBF16;
  if constexpr (std::is_same_v<T, std::uint8_t>) return DType::kU8;
  if constexpr (std::is_same_v<T, std::int32_t>) return DType::kI32;
}();

// Calls f(T{}) with T = float or BF16: how an op is written once for both activation types.
template <class F>
decltype(auto) with_float_type(DType dtype, F&& f) {
  GLINT_CHECK(dtype == DType::kF32 || dtype == DType::kBF16, "activations are f32 or bf16");
  return dtype == DType::kF32 ? f(float{}) : f(BF16{});
}

}  // namespace glint
