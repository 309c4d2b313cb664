#include "backends/reference/numeric.h"

#include "base/str.h"

namespace glint::reference {
namespace {

void append(const Tensor& x, int axis, std::int64_t offset, std::vector<float>& out) {
  if (axis < x.rank - 1) {
    for (std::int64_t i = 0; i < x.shape[axis]; ++i) {
      append(x, axis + 1, offset + i * x.stride[axis], out);
    }
    return;
  }
  with_float_type(x.dtype, [&](auto type) {
    const auto* row = x.ptr<decltype(type)>() + offset;
    for (std::int64_t i = 0; i < x.shape[axis]; ++i) out.push_back(to_float(row[i]));
  });
}

}  // namespace

std::vector<float> floats_of(const Tensor& x) {
  std::vector<float> out;
  out.reserve(x.size());
  append(x, 0, 0, out);
  return out;
}

double dot(const float* a, const float* b, std::int64_t n) {
  constexpr int kLanes = 8;
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) lanes[j] += double{a[i + j]} * b[i + j];
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  for (; i < n; ++i) sum += double{a[i]} * b[i];
  return sum;
}

std::int64_t index_at(const Tensor& indices, std::int64_t i, std::int64_t limit, const char* what) {
  const std::int64_t index = indices.ptr<std::int32_t>()[i];
  GLINT_CHECK(index >= 0 && index < limit, str(what, " ", index, " is not in [0, ", limit, ")"));
  return index;
}

std::int64_t index_or_padding(const Tensor& indices, std::int64_t i, std::int64_t limit,
                              const char* what) {
  return indices.ptr<std::int32_t>()[i] == -1 ? -1 : index_at(indices, i, limit, what);
}

}  // namespace glint::reference
