#include "backends/cuda/linear/product.h"

#include "backends/cuda/linear/linear.h"

namespace glint::cuda {
namespace {

Epilogue epilogue_of(const Tensor& out, bool accumulate) {
  if (out.dtype == DType::kBF16) return Epilogue::kBF16;
  return accumulate ? Epilogue::kAdd : Epilogue::kF32;
}

void launch(WeightFormat format, const ProductArgs& p, Epilogue epilogue, const Gpu& gpu) {
  if (p.m == 0 || p.n == 0 || p.matrices == 0) return;
  switch (format) {
    case WeightFormat::kBF16:
      return launch_product<WeightFormat::kBF16>(p, epilogue, gpu);
    case WeightFormat::kFp8Block:
      return launch_product<WeightFormat::kFp8Block>(p, epilogue, gpu);
    case WeightFormat::kNvfp4:
      return launch_product<WeightFormat::kNvfp4>(p, epilogue, gpu);
    case WeightFormat::kF32:
      break;
  }
  GLINT_CHECK(false, "a product of bf16 with f32 weights; has_product says that there is none");
}

ProductArgs product_of(const Tensor& x, const Weight& weight, const Tensor& out) {
  return {.x = bf16_data(x),
          .x_stride = x.stride[0],
          .out = out.data,
          .out_stride = out.stride[0],
          .m = x.dim(0),
          .n = weight.rows,
          .k = static_cast<int>(weight.cols),
          .weights = view_of(weight)};
}

ProductArgs product_of(const Tensor& x, const Tensor& rows, const Tensor& offsets,
                       const WeightStack& weights, const Tensor& out) {
  return {.x = bf16_data(x),
          .x_stride = x.stride[0],
          .out = out.data,
          .out_stride = out.stride[0],
          .m = out.dim(0),
          .n = weights.rows,
          .k = static_cast<int>(weights.cols),
          .weights = view_of(weights),
          .offsets = offsets.ptr<std::int32_t>(),
          .sources = rows ? rows.ptr<std::int32_t>() : nullptr,
          .matrices = static_cast<int>(weights.count)};
}

void launch_grouped(const GroupedLinearArgs& args, bool knows_groups, const Gpu& gpu) {
  ProductArgs product = product_of(args.x, args.rows, args.offsets, args.weights, args.out);
  product.knows_groups = knows_groups;
  launch(args.weights.format, product, epilogue_of(args.out, args.accumulate), gpu);
}

}  // namespace

void launch_linear(const LinearArgs& args, const Gpu& gpu) {
  launch(args.weight.format, product_of(args.x, args.weight, args.out),
         epilogue_of(args.out, args.accumulate), gpu);
}

void launch_grouped_linear(const GroupedLinearArgs& args, const Gpu& gpu) {
  launch_grouped(args, false, gpu);
}

void launch_grouped_down(const GroupedDownArgs& args, const Gpu& gpu) {
  launch_grouped(args.product, true, gpu);
}

void launch_per_head(const PerHeadArgs& args, const Gpu& gpu) {
  const ProductArgs product = {.x = bf16_data(args.x),
                               .x_stride = args.x.stride[0],
                               .x_step = args.x.stride[1],
                               .out = args.out.data,
                               .out_stride = args.out.stride[0],
                               .out_step = args.out.stride[1],
                               .m = args.x.dim(0),
                               .n = args.weights.rows,
                               .k = static_cast<int>(args.weights.cols),
                               .weights = view_of(args.weights),
                               .matrices = static_cast<int>(args.weights.count)};
  launch(args.weights.format, product, epilogue_of(args.out, args.accumulate), gpu);
}

void launch_gate_up(const GateUpArgs& args, const Gpu& gpu) {
  ProductArgs product = product_of(args.x, args.gate, args.out);
  product.up = view_of(args.up);
  launch(args.gate.format, product, Epilogue::kSiluMul, gpu);
}

void launch_grouped_gate_up(const GroupedGateUpArgs& args, const Gpu& gpu) {
  ProductArgs product = product_of(args.x, args.rows, args.offsets, args.gate, args.out);
  product.up = view_of(args.up);
  launch(args.gate.format, product, Epilogue::kSiluMul, gpu);
}

}  // namespace glint::cuda
