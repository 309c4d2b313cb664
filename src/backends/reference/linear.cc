// The reference of linear, grouped_linear and per_head (ops/linear.h).
#include "backends/reference/numeric.h"
#include "backends/reference/reference_ops.h"

namespace glint {

using namespace reference;

namespace {

// out = or += sum
template <class T>
void put(T& out, double sum, bool accumulate) {
  const auto product = static_cast<float>(sum);
  out = from_float<T>(accumulate ? to_float(out) + product : product);
}

// out[r, n] = or += dot(row source(r) of x, weight[n]) for begin <= r < end; x is dense [.., K].
template <class Source>
void multiply(const std::vector<float>& x, Source source, std::int64_t begin, std::int64_t end,
              const Weight& weight, const Tensor& out, bool accumulate) {
  if (begin == end) return;
  const std::int64_t K = weight.cols;
  std::vector<float> row(K);
  with_float_type(out.dtype, [&](auto type) {
    using T = decltype(type);
    for (std::int64_t n = 0; n < weight.rows; ++n) {
      dequantize_row(weight, n, row.data());
      for (std::int64_t r = begin; r < end; ++r) {
        const double sum = dot(x.data() + source(r) * K, row.data(), K);
        put(out.row<T>(r)[n], sum, accumulate);
      }
    }
  });
}

}  // namespace

void ReferenceOps::linear(const LinearArgs& args) {
  check(args);
  const auto itself = [](std::int64_t r) { return r; };
  multiply(floats_of(args.x), itself, 0, args.x.dim(0), args.weight, args.out, args.accumulate);
}

void ReferenceOps::grouped_linear(const GroupedLinearArgs& args) {
  check(args);
  const std::vector<float> x = floats_of(args.x);
  const auto source = [&](std::int64_t r) {
    return args.rows ? index_at(args.rows, r, args.x.dim(0), "row") : r;
  };
  const std::int64_t E = args.weights.count, R = args.out.dim(0);
  const std::int32_t* offsets = args.offsets.ptr<std::int32_t>();
  GLINT_CHECK(offsets[0] == 0 && offsets[E] <= R, "the offsets go beyond the rows");
  for (std::int64_t e = 0; e < E; ++e) {
    GLINT_CHECK(offsets[e] <= offsets[e + 1], "the offsets do not ascend");
    multiply(x, source, offsets[e], offsets[e + 1], args.weights[e], args.out, args.accumulate);
  }
}

void ReferenceOps::per_head(const PerHeadArgs& args) {
  check(args);
  const std::int64_t T = args.x.dim(0), H = args.x.dim(1), A = args.x.dim(2), B = args.out.dim(2);
  const std::vector<float> x = floats_of(args.x);
  std::vector<float> row(A);
  with_float_type(args.out.dtype, [&](auto type) {
    using E = decltype(type);
    for (std::int64_t h = 0; h < H; ++h) {
      const Weight weight = args.weights[h];
      for (std::int64_t b = 0; b < B; ++b) {
        dequantize_row(weight, b, row.data());
        for (std::int64_t t = 0; t < T; ++t) {
          const double sum = dot(&x[(t * H + h) * A], row.data(), A);
          put(args.out.row<E>(t)[h * args.out.stride[1] + b], sum, args.accumulate);
        }
      }
    }
  });
}

}  // namespace glint
