#include "ops/linear.h"

#include <algorithm>

#include "tensor/shape_check.h"

namespace glint {
namespace {

// Outputs that accumulate are f32, so that sums are not rounded again and again.
template <class Args>
DTypes types_of_out(const Args& args) {
  return args.accumulate ? DTypes{DType::kF32} : DTypes{args.x.dtype, DType::kF32};
}

template <class Args>
double out_bytes(const Args& args) {
  return (args.accumulate ? 2 : 1) * bytes_of(args.out);
}

}  // namespace

void check(const LinearArgs& args) {
  ShapeCheck c("linear");
  c.strided("x", args.x, kFloats, {"T", "K"});
  c.weight("weight", args.weight, "N", "K");
  c.strided("out", args.out, types_of_out(args), {"T", "N"});
}

OpCost cost(const LinearArgs& args) {
  return {.flops = 2.0 * args.x.size() * args.weight.rows,
          .bytes = bytes_of(args.x) + bytes_of(args.weight) + out_bytes(args),
          .weight_bytes = static_cast<double>(bytes_of(args.weight))};
}

void check(const GroupedLinearArgs& args) {
  ShapeCheck c("grouped_linear");
  c.strided("x", args.x, kFloats, {"S", "K"});
  if (args.rows) {
    c.dense("rows", args.rows, DType::kI32, {"R"});
  } else {
    c.size("R", args.x.dim(0), "x[0], as rows is empty");
  }
  c.size("E + 1", args.weights.count + 1, "the number of weights");
  c.dense("offsets", args.offsets, DType::kI32, {"E + 1"});
  c.weights("weights", args.weights, "N", "K");
  c.dense("out", args.out, types_of_out(args), {"R", "N"});
}

OpCost cost(const GroupedLinearArgs& args) {
  const std::int32_t* offsets = args.offsets.ptr<std::int32_t>();
  double weights = 0;
  for (std::int64_t e = 0; e < args.weights.count; ++e) {
    if (offsets[e] != offsets[e + 1]) weights += bytes_of(args.weights[e]);
  }
  return {.flops = 2.0 * args.out.size() * args.x.dim(1),
          .bytes = bytes_of(args.x) + bytes_of(args.rows) + bytes_of(args.offsets) + weights +
                   out_bytes(args),
          .weight_bytes = weights};
}

OpCost cost(const GroupedLinearArgs& args, const Assume& assume) {
  const auto count = static_cast<double>(args.weights.count);
  const double weights = static_cast<double>(bytes_of(args.weights)) / std::max(count, 1.0) *
                         std::min(assume.experts, count);
  const double width = static_cast<double>(args.x.dim(1)) * size_of(args.x.dtype) +
                       static_cast<double>(args.out.dim(1)) * size_of(args.out.dtype);
  return {.flops = 2.0 * assume.rows * static_cast<double>(args.out.dim(1) * args.x.dim(1)),
          .bytes = weights + assume.rows * width,
          .weight_bytes = weights};
}

void check(const PerHeadArgs& args) {
  ShapeCheck c("per_head");
  c.strided("x", args.x, kFloats, {"T", "H", "A"});
  c.size("H", args.weights.count, "the number of weights");
  c.weights("weights", args.weights, "B", "A");
  c.strided("out", args.out, types_of_out(args), {"T", "H", "B"});
}

OpCost cost(const PerHeadArgs& args) {
  return {.flops = 2.0 * args.x.size() * args.out.dim(2),
          .bytes = bytes_of(args.x) + bytes_of(args.weights) + out_bytes(args),
          .weight_bytes = static_cast<double>(bytes_of(args.weights))};
}

}  // namespace glint
