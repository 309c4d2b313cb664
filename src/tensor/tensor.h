// Tensor: a typed, strided view of memory that somebody else owns.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "tensor/dtype.h"

namespace glint {

// Up to four dims, row-major unless sliced; the last stride is always 1. Empty (no data, rank 0)
// means "not given". Strides count elements. Data need not be aligned to more than its element.
struct Tensor {
  std::byte* data = nullptr;
  DType dtype = DType::kF32;
  std::int16_t rank = 0;
  // Which tensor of its model it is (model/tensor_table.h), or -1. Slices keep it.
  std::int32_t id = -1;
  std::array<std::int64_t, 4> shape = {};
  std::array<std::int64_t, 4> stride = {};

  Tensor() = default;
  // A dense row-major tensor over `data`.
  Tensor(void* data, DType dtype, std::initializer_list<std::int64_t> dims);

  explicit operator bool() const { return data != nullptr; }
  std::int64_t size() const;  // elements
  std::int64_t dim(int i) const { return shape[i < 0 ? rank + i : i]; }
  bool is_dense() const;                      // row-major without gaps
  std::span<const std::byte> bytes() const {  // of a dense tensor
    return {data, static_cast<std::size_t>(size() * size_of(dtype))};
  }
  std::string describe() const;  // "BF16 [8, 6144]"

  template <class T>
  T* ptr() const {
    GLINT_CHECK(dtype == kDTypeOf<T>, "tensor holds " + describe());
    return reinterpret_cast<T*>(data);
  }
  // Start of row `i` of the first dim.
  template <class T>
  T* row(std::int64_t i) const {
    return ptr<T>() + i * stride[0];
  }

  // Indices [begin, begin + count) of dim `d`.
  Tensor slice(int d, std::int64_t begin, std::int64_t count) const;
  // Element `i` of the first dim: [N, ..] -> [..].
  Tensor operator[](std::int64_t i) const;
  // Columns at the start or end of the last dim.
  Tensor first(std::int64_t count) const { return slice(rank - 1, 0, count); }
  Tensor last(std::int64_t count) const { return slice(rank - 1, dim(-1) - count, count); }
  // [.., h * D] -> [.., h, D].
  Tensor heads(std::int64_t h) const;
  // [T, H, D] -> [T, D] of one head.
  Tensor head(std::int64_t h) const;
  // [.., h, D] -> [.., h * D]; the last two dims must be dense.
  Tensor flat() const;
};

// Past the last element, with the gaps between rows.
const std::byte* end_of(const Tensor& x);

}  // namespace glint
