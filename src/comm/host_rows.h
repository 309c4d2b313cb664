// Rows of tensors in host memory: added, and copied.
#pragma once

#include <cstring>
#include <span>

#include "comm/tree.h"
#include "tensor/tensor.h"

namespace glint {

// Elements [begin, end) of out = the tree's sum (tree.h) of `parts`, f32 tensors of out's size,
// rounded once to out's type. All dense.
inline void add_parts(std::span<const Tensor> parts, const Tensor& out, std::int64_t begin,
                      std::int64_t end) {
  with_float_type(out.dtype, [&](auto type) {
    using T = decltype(type);
    for (std::int64_t i = begin; i < end; ++i) {
      out.ptr<T>()[i] = from_float<T>(tree_sum(static_cast<int>(parts.size()), [&](int p) {
        return parts[static_cast<std::size_t>(p)].ptr<float>()[i];
      }));
    }
  });
}

// to[at + i] = x[rows[begin + i]], or x[begin + i] where `rows` is empty, for `count` i's. `x` may
// have strided rows, `to` is dense.
inline void copy_rows(const Tensor& x, const Tensor& rows, std::int64_t begin, const Tensor& to,
                      std::int64_t at, std::int64_t count) {
  const std::int64_t element = size_of(x.dtype), width = x.rank > 1 ? x.dim(1) : 1;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t from = rows ? rows.ptr<std::int32_t>()[begin + i] : begin + i;
    GLINT_CHECK(from >= 0 && from < x.dim(0), "a row that is not there is to be sent");
    std::memcpy(to.data + (at + i) * width * element, x.data + from * x.stride[0] * element,
                static_cast<std::size_t>(width * element));
  }
}

}  // namespace glint
