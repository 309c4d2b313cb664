#include "backends/reference/numeric.h"

#include <cstring>

#include "base/str.h"
#include "tensor/fp8.h"

namespace glint::reference {
namespace {

// `n` values of type T at `bytes`, which need not be aligned.
template <class T>
void load(const std::byte* bytes, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
    out[i] = to_float(value);
  }
}

void load_e4m3(const std::byte* bytes, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = e4m3_to_float(static_cast<std::uint8_t>(bytes[i]));
}

void append(const Tensor& x, int axis, std::int64_t offset, std::vector<float>& out) {
  if (axis < x.rank - 1) {
    for (std::int64_t i = 0; i < x.shape[axis]; ++i) {
      append(x, axis + 1, offset + i * x.stride[axis], out);
    }
    return;
  }
  const std::size_t begin = out.size();
  out.resize(begin + x.shape[axis]);
  with_float_type(x.dtype, [&](auto type) {
    load<decltype(type)>(x.data + offset * size_of(x.dtype), x.shape[axis], out.data() + begin);
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

void read_latent(const LatentCache& cache, std::int64_t slot, DType activations, float* out) {
  const std::byte* row = cache.row(slot);
  const int latent = cache.latent_dim, rope = cache.rope_dim;
  switch (cache.format) {
    case LatentFormat::kF32:
      return load<float>(row, latent + rope, out);
    case LatentFormat::kBF16:
      return load<BF16>(row, latent + rope, out);
    case LatentFormat::kFp8:
      break;
  }
  const int groups = (latent + 127) / 128;
  std::vector<float> scales(groups);
  load<float>(row + latent, groups, scales.data());
  load_e4m3(row, latent, out);
  for (int i = 0; i < latent; ++i) {
    out[i] *= scales[i / 128];
    if (activations == DType::kBF16) out[i] = to_float(to_bf16(out[i]));
  }
  load<BF16>(row + latent + 4 * groups, rope, out + latent);
}

void read_index_key(const IndexCache& cache, std::int64_t slot, float* out) {
  const std::byte* key = cache.key(slot);
  switch (cache.format) {
    case IndexFormat::kF32:
      return load<float>(key, cache.dim, out);
    case IndexFormat::kBF16:
      return load<BF16>(key, cache.dim, out);
    case IndexFormat::kFp8:
      return load_e4m3(key, cache.dim, out);
  }
}

}  // namespace glint::reference
