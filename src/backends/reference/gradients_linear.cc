// The reference's backward passes of linear, grouped_linear and per_head.
#include <algorithm>
#include <functional>

#include "backends/reference/numeric.h"
#include "backends/reference/reference_gradients.h"

namespace glint {

using namespace reference;

namespace {

// Rows of f32 anywhere.
using RowOf = std::function<float*(std::int64_t r)>;

// For `rows` rows: dx(r) += g(r) W, dW += g^T x, g = 0. `x` is dense [rows, K].
struct Product {
  std::int64_t rows = 0;
  Weight weight = {};
  const float* x = nullptr;
  RowOf g = {};
  RowOf dx = {};             // or empty
  float* dweight = nullptr;  // [N, K], or null
};

void go_back(const Product& p) {
  const std::int64_t N = p.weight.rows, K = p.weight.cols;
  std::vector<float> w(K);
  std::vector<double> dx(p.dx ? p.rows * K : 0), dw(K);
  for (std::int64_t n = 0; n < N; ++n) {
    dequantize_row(p.weight, n, w.data());
    std::fill(dw.begin(), dw.end(), 0);
    for (std::int64_t r = 0; r < p.rows; ++r) {
      const double g = p.g(r)[n];
      for (std::int64_t k = 0; p.dx && k < K; ++k) dx[r * K + k] += g * w[k];
      for (std::int64_t k = 0; p.dweight && k < K; ++k) dw[k] += g * p.x[r * K + k];
    }
    for (std::int64_t k = 0; p.dweight && k < K; ++k) {
      p.dweight[n * K + k] += static_cast<float>(dw[k]);
    }
  }
  for (std::int64_t r = 0; r < p.rows; ++r) {
    for (std::int64_t k = 0; p.dx && k < K; ++k) p.dx(r)[k] += static_cast<float>(dx[r * K + k]);
    std::fill_n(p.g(r), N, 0.0f);
  }
}

// Matrix i of a stack of gradients, or null.
float* matrix(const Tensor& dweights, std::int64_t i) {
  return dweights ? dweights.row<float>(i) : nullptr;
}

}  // namespace

void ReferenceGradients::linear_back(const LinearBackArgs& args) {
  check(args);
  const std::vector<float> x = floats_of(args.op.x);
  Product p = {.rows = args.op.x.dim(0), .weight = args.op.weight, .x = x.data()};
  p.g = [&](std::int64_t r) { return args.dout.row<float>(r); };
  if (args.dx) p.dx = [&](std::int64_t r) { return args.dx.row<float>(r); };
  if (args.dweight) p.dweight = args.dweight.ptr<float>();
  go_back(p);
}

void ReferenceGradients::grouped_linear_back(const GroupedLinearBackArgs& args) {
  check(args);
  const std::vector<float> all = floats_of(args.op.x);
  const std::int64_t E = args.op.weights.count, K = args.op.x.dim(1);
  const std::int32_t* const offsets = args.op.offsets.ptr<std::int32_t>();
  GLINT_CHECK(offsets[0] == 0 && offsets[E] <= args.dout.dim(0), "the offsets go beyond the rows");
  const auto source = [&](std::int64_t r) {
    return args.op.rows ? index_at(args.op.rows, r, args.op.x.dim(0), "row") : r;
  };
  for (std::int64_t e = 0; e < E; ++e) {
    const std::int64_t begin = offsets[e], count = offsets[e + 1] - begin;
    GLINT_CHECK(count >= 0, "the offsets do not ascend");
    if (count == 0) continue;
    std::vector<float> x;
    for (std::int64_t r = 0; r < count; ++r) {
      const float* const row = &all[source(begin + r) * K];
      x.insert(x.end(), row, row + K);
    }
    Product p = {.rows = count, .weight = args.op.weights[e], .x = x.data()};
    p.g = [&](std::int64_t r) { return args.dout.row<float>(begin + r); };
    if (args.dx) p.dx = [&](std::int64_t r) { return args.dx.row<float>(source(begin + r)); };
    p.dweight = matrix(args.dweights, e);
    go_back(p);
  }
}

void ReferenceGradients::per_head_back(const PerHeadBackArgs& args) {
  check(args);
  const auto head_row = [](const Tensor& x, std::int64_t t, std::int64_t h) {
    return x.row<float>(t) + h * x.stride[1];
  };
  for (std::int64_t h = 0; h < args.op.x.dim(1); ++h) {
    const std::vector<float> x = floats_of(args.op.x.slice(1, h, 1));
    Product p = {.rows = args.op.x.dim(0), .weight = args.op.weights[h], .x = x.data()};
    p.g = [&](std::int64_t t) { return head_row(args.dout, t, h); };
    if (args.dx) p.dx = [&](std::int64_t t) { return head_row(args.dx, t, h); };
    p.dweight = matrix(args.dweights, h);
    go_back(p);
  }
}

}  // namespace glint
