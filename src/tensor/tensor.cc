#include "tensor/tensor.h"

#include "base/str.h"

namespace glint {

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kBF16:
      return "BF16";
    case DType::kF8E4M3:
      return "F8_E4M3";
    case DType::kU8:
      return "U8";
    case DType::kI32:
      return "I32";
  }
  return "?";
}

Tensor::Tensor(void* data, DType dtype, std::initializer_list<std::int64_t> dims)
    : data(static_cast<std::byte*>(data)),
      dtype(dtype),
      rank(static_cast<std::int16_t>(dims.size())) {
  GLINT_CHECK(rank >= 1 && rank <= 4, str("rank ", rank));
  int i = 0;
  for (const std::int64_t dim : dims) shape[i++] = dim;
  std::int64_t step = 1;
  for (i = rank - 1; i >= 0; --i) stride[i] = step, step *= shape[i];
}

std::int64_t Tensor::size() const {
  std::int64_t n = rank ? 1 : 0;
  for (int i = 0; i < rank; ++i) n *= shape[i];
  return n;
}

bool Tensor::is_dense() const {
  std::int64_t step = 1;
  for (int i = rank - 1; i >= 0; --i) {
    if (shape[i] != 1 && stride[i] != step) return false;
    step *= shape[i];
  }
  return true;
}

std::string Tensor::describe() const {
  std::string text = str(name_of(dtype), " [");
  for (int i = 0; i < rank; ++i) text += str(i ? ", " : "", shape[i]);
  return text + "]";
}

Tensor Tensor::slice(int d, std::int64_t begin, std::int64_t count) const {
  GLINT_CHECK(d >= 0 && d < rank && begin >= 0 && count >= 0 && begin + count <= shape[d],
              str("slice [", begin, ", ", begin + count, ") of dim ", d, " of ", describe()));
  Tensor part = *this;
  part.data += begin * stride[d] * size_of(dtype);
  part.shape[d] = count;
  return part;
}

Tensor Tensor::operator[](std::int64_t i) const {
  GLINT_CHECK(rank > 1, "no element of " + describe());
  Tensor part = slice(0, i, 1);
  --part.rank;
  for (int d = 0; d < part.rank; ++d) {
    part.shape[d] = shape[d + 1];
    part.stride[d] = stride[d + 1];
  }
  return part;
}

Tensor Tensor::heads(std::int64_t h) const {
  GLINT_CHECK(rank < 4 && h > 0 && dim(-1) % h == 0, str(h, " heads of ", describe()));
  Tensor split = *this;
  split.shape[rank - 1] = h;
  split.shape[rank] = dim(-1) / h;
  split.stride[rank - 1] = split.shape[rank];
  split.stride[rank] = 1;
  ++split.rank;
  return split;
}

Tensor Tensor::head(std::int64_t h) const {
  GLINT_CHECK(rank == 3, "a head of " + describe());
  Tensor one = slice(1, h, 1);
  one.shape[1] = one.shape[2];
  one.stride[1] = one.stride[2];
  one.rank = 2;
  return one;
}

Tensor Tensor::flat() const {
  GLINT_CHECK(rank >= 2 && stride[rank - 2] == shape[rank - 1],
              str("cannot flatten the last two dims of ", describe()));
  Tensor merged = *this;
  merged.shape[rank - 2] *= shape[rank - 1];
  merged.stride[rank - 2] = 1;
  --merged.rank;
  return merged;
}

const std::byte* end_of(const Tensor& x) {
  if (x.size() == 0) return x.data;
  std::int64_t last = 0;
  for (int i = 0; i < x.rank; ++i) last += (x.shape[i] - 1) * x.stride[i];
  return x.data + (last + 1) * size_of(x.dtype);
}

}  // namespace glint
