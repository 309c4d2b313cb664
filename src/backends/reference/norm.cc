// The reference of rms_norm and layer_norm (ops/norm.h).
#include <cmath>

#include "backends/reference/numeric.h"
#include "backends/reference/reference_ops.h"

namespace glint {

using namespace reference;

namespace {

// Row t of `to` = values, rounded to its type.
void put_row(const Tensor& to, std::int64_t t, const std::vector<float>& values) {
  with_float_type(to.dtype, [&](auto type) {
    using T = decltype(type);
    for (std::size_t d = 0; d < values.size(); ++d) to.row<T>(t)[d] = from_float<T>(values[d]);
  });
}

void rms_norm_row(const RmsNormArgs& args, std::int64_t t, const std::vector<float>& weight) {
  const auto D = static_cast<std::size_t>(args.x.dim(1));
  const auto row_of = [&](const Tensor& x) { return floats_of(x.slice(0, t, 1)); };
  std::vector<float> x = row_of(args.x);
  if (args.delta) {
    const std::vector<float> delta = row_of(args.delta);
    for (std::size_t d = 0; d < D; ++d) x[d] += delta[d];
    put_row(args.x, t, x);
    x = row_of(args.x);
  }
  double sum = 0;
  for (const float value : x) sum += double{value} * value;
  const double scale = 1 / std::sqrt(sum / static_cast<double>(D) + args.eps);
  for (std::size_t d = 0; d < D; ++d) x[d] = static_cast<float>(x[d] * scale * weight[d]);
  put_row(args.out, t, x);
}

}  // namespace

void ReferenceOps::rms_norm(const RmsNormArgs& args) {
  check(args);
  const std::vector<float> weight = floats_of(args.weight);
  for (std::int64_t t = 0; t < args.x.dim(0); ++t) rms_norm_row(args, t, weight);
}

void ReferenceOps::layer_norm(const LayerNormArgs& args) {
  check(args);
  const std::int64_t D = args.x.dim(1);
  const std::vector<float> weight = floats_of(args.weight), bias = floats_of(args.bias);
  for (std::int64_t t = 0; t < args.x.dim(0); ++t) {
    std::vector<float> x = floats_of(args.x.slice(0, t, 1));
    double mean = 0, var = 0;
    for (const float value : x) mean += value;
    mean /= static_cast<double>(D);
    for (const float value : x) var += (value - mean) * (value - mean);
    const double scale = 1 / std::sqrt(var / static_cast<double>(D) + args.eps);
    for (std::int64_t d = 0; d < D; ++d) {
      x[d] = static_cast<float>((x[d] - mean) * scale * weight[d] + bias[d]);
    }
    put_row(args.out, t, x);
  }
}

}  // namespace glint
