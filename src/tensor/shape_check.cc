#include "tensor/shape_check.h"

#include <cstring>

#include "base/str.h"

namespace glint {
namespace {

std::string place(const char* name, int axis) {
  return axis < 0 ? std::string(name) : str(name, "[", axis, "]");
}

}  // namespace

std::string DTypes::describe() const {
  std::string text;
  for (int i = 0; i < 32; ++i) {
    const DType dtype = static_cast<DType>(i);
    if (has(dtype)) text += str(text.empty() ? "" : " or ", name_of(dtype));
  }
  return text;
}

void ShapeCheck::dense(const char* name, const Tensor& x, DTypes dtypes, Names dims) {
  strided(name, x, dtypes, dims);
  if (!x.is_dense()) fail(str(name, " must be dense, and has strides: ", x.describe()));
}

void ShapeCheck::strided(const char* name, const Tensor& x, DTypes dtypes, Names dims) {
  if (!x) fail(str(name, " is not given"));
  if (x.rank != static_cast<int>(dims.size())) {
    fail(str(name, " is ", x.describe(), ", but must have ", dims.size(), " dims"));
  }
  if (!dtypes.has(x.dtype)) {
    fail(str(name, " is ", x.describe(), ", but must hold ", dtypes.describe()));
  }
  int axis = 0;
  for (const char* dim : dims) {
    match(name, axis, dim, x.shape[axis]);
    ++axis;
  }
  if (x.shape[x.rank - 1] != 1 && x.stride[x.rank - 1] != 1) {
    fail(str("the last dim of ", name, " must be dense, and has stride ", x.stride[x.rank - 1]));
  }
}

void ShapeCheck::weight(const char* name, const Weight& w, const char* rows, const char* cols) {
  if (!w) fail(str(name, " is not given"));
  match(name, 0, rows, w.rows);
  match(name, 1, cols, w.cols);
}

void ShapeCheck::weights(const char* name, const WeightStack& w, const char* rows,
                         const char* cols) {
  if (!w) fail(str(name, " are not given"));
  match(name, 1, rows, w.rows);
  match(name, 2, cols, w.cols);
}

void ShapeCheck::size(const char* dim, std::int64_t value, const char* source) {
  match(source, -1, dim, value);
}

std::int64_t ShapeCheck::operator[](const char* dim) const {
  const Bound* bound = find(dim);
  if (!bound) fail(str("no argument has a dim ", dim));
  return bound->size;
}

void ShapeCheck::match(const char* name, int axis, const char* dim, std::int64_t value) {
  const Bound* bound = find(dim);
  if (!bound) {
    GLINT_CHECK(count_ < static_cast<int>(bound_.size()), "too many named dims");
    bound_[count_++] = {.dim = dim, .size = value, .source = name, .axis = axis};
  } else if (bound->size != value) {
    fail(str(place(name, axis), " is ", value, ", but ", dim, " is ", bound->size, " (from ",
             place(bound->source, bound->axis), ")"));
  }
}

const ShapeCheck::Bound* ShapeCheck::find(const char* dim) const {
  for (int i = 0; i < count_; ++i) {
    if (std::strcmp(bound_[i].dim, dim) == 0) return &bound_[i];
  }
  return nullptr;
}

void ShapeCheck::fail(const std::string& message) const {
  check_failed(__FILE__, __LINE__, "arguments", str(op_, ": ", message));
}

}  // namespace glint
