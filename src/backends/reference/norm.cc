// The reference of rms_norm and layer_norm (ops/norm.h).
#include <cmath>

#include "backends/reference/numeric.h"
#include "backends/reference/reference_ops.h"

namespace glint {

using namespace reference;

namespace {

template <class T>
void rms_norm_row(const RmsNormArgs& args, std::int64_t t, const std::vector<float>& weight) {
  const std::int64_t D = args.x.dim(1);
  T* x = args.x.row<T>(t);
  T* out = args.out.row<T>(t);
  if (args.delta) {
    const T* delta = args.delta.row<T>(t);
    for (std::int64_t d = 0; d < D; ++d) x[d] = from_float<T>(to_float(x[d]) + to_float(delta[d]));
  }
  double sum = 0;
  for (std::int64_t d = 0; d < D; ++d) sum += double{to_float(x[d])} * to_float(x[d]);
  const double scale = 1 / std::sqrt(sum / static_cast<double>(D) + args.eps);
  for (std::int64_t d = 0; d < D; ++d) {
    out[d] = from_float<T>(static_cast<float>(to_float(x[d]) * scale * weight[d]));
  }
}

}  // namespace

void ReferenceOps::rms_norm(const RmsNormArgs& args) {
  check(args);
  const std::vector<float> weight = floats_of(args.weight);
  with_float_type(args.x.dtype, [&](auto type) {
    for (std::int64_t t = 0; t < args.x.dim(0); ++t) rms_norm_row<decltype(type)>(args, t, weight);
  });
}

void ReferenceOps::layer_norm(const LayerNormArgs& args) {
  check(args);
  const std::int64_t D = args.x.dim(1);
  const std::vector<float> weight = floats_of(args.weight), bias = floats_of(args.bias);
  for (std::int64_t t = 0; t < args.x.dim(0); ++t) {
    const std::vector<float> x = floats_of(args.x.slice(0, t, 1));
    double mean = 0, var = 0;
    for (const float value : x) mean += value;
    mean /= static_cast<double>(D);
    for (const float value : x) var += (value - mean) * (value - mean);
    const double scale = 1 / std::sqrt(var / static_cast<double>(D) + args.eps);
    with_float_type(args.out.dtype, [&](auto type) {
      using T = decltype(type);
      for (std::int64_t d = 0; d < D; ++d) {
        const double value = (x[d] - mean) * scale * weight[d] + bias[d];
        args.out.row<T>(t)[d] = from_float<T>(static_cast<float>(value));
      }
    });
  }
}

}  // namespace glint
