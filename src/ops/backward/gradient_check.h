// GradientCheck: the gradients among an op's arguments have the shapes of what they belong to.
#pragma once

#include <initializer_list>
#include <string>

#include "base/str.h"
#include "tensor/tensor.h"

namespace glint {

class GradientCheck {
 public:
  explicit GradientCheck(const char* op) : op_(op) {}

  // `d` is given: f32, of the shape of `x`, and the elements of the last dim are neighbours.
  void of(const char* name, const Tensor& d, const Tensor& x) const {
    require(static_cast<bool>(d), name, "is not given");
    bool fits = d.dtype == DType::kF32 && d.rank == x.rank;
    for (int i = 0; fits && i < d.rank; ++i) fits = d.shape[i] == x.shape[i];
    require(fits, name, str("is ", d.describe(), ", but belongs to ", x.describe()));
    require(d.dim(-1) == 1 || d.stride[d.rank - 1] == 1, name, "has gaps in its last dim");
  }
  // of(), where `d` may be empty.
  void if_wanted(const char* name, const Tensor& d, const Tensor& x) const {
    if (d) of(name, d, x);
  }
  // `d` is given: f32, dense, of these dims.
  void dense(const char* name, const Tensor& d, std::initializer_list<std::int64_t> dims) const {
    of(name, d, Tensor(d.data, DType::kF32, dims));
    require(d.is_dense(), name, "must be dense");
  }
  void require(bool holds, const char* name, const std::string& message) const {
    GLINT_CHECK(holds, str(op_, ": ", name, " ", message));
  }

 private:
  const char* op_;
};

}  // namespace glint
