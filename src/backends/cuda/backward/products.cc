// linear_back, grouped_linear_back, per_head_back: which products they are.
#include "backends/cuda/backward/back_product.h"
#include "backends/cuda/backward/temporaries.h"
#include "backends/cuda/linear/weight_view.h"

namespace glint::cuda {
namespace {

// With everything but dx or dweight in it. Where both x and the weight are bf16, g may be rounded.
struct Products {
  BackProduct by_input, by_weight;
  bool on_tensor_cores;
};

void launch(const Products& products, bool input, bool weight, const Gpu& gpu) {
  const auto launch_one =
      products.on_tensor_cores ? launch_back_product_bf16 : launch_back_product_f32;
  if (input) launch_one(BackProductOf::kInput, products.by_input, gpu);
  if (weight) launch_one(BackProductOf::kWeight, products.by_weight, gpu);
}

std::int64_t step_of(const Tensor& x) { return x.rank == 3 ? x.stride[1] : 0; }

// x is [T, K] with a weight or [T, H, K] with a stack; dx and dweight may be empty.
template <class Weights>
Products products_of(const Tensor& x, const Weights& weights, const Tensor& dout, const Tensor& dx,
                     const Tensor& dweight, int matrices) {
  const StackView w = view_of(weights);
  const bool w_is_bf16 = weights.format == WeightFormat::kBF16;
  const bool x_is_bf16 = x.dtype == DType::kBF16;
  const auto size = static_cast<std::int64_t>(size_of(w_is_bf16 ? DType::kBF16 : DType::kF32));
  BackProduct by_input = {.g = dout.ptr<float>(),
                          .g_stride = dout.stride[0],
                          .g_step = step_of(dout),
                          .b = w.first.data,
                          .b_is_bf16 = w_is_bf16,
                          .b_stride = weights.cols,
                          .b_step = w.data_step / size,
                          .b_rows = nullptr,
                          .out = dx ? dx.ptr<float>() : nullptr,
                          .out_stride = dx ? dx.stride[0] : 0,
                          .out_step = dx ? step_of(dx) : 0,
                          .adds = true,
                          .m = dout.dim(0),
                          .n = weights.cols,
                          .k = weights.rows,
                          .matrices = matrices,
                          .offsets = nullptr};
  BackProduct by_weight = by_input;
  by_weight.b = x.data;
  by_weight.b_is_bf16 = x_is_bf16;
  by_weight.b_stride = x.stride[0];
  by_weight.b_step = step_of(x);
  by_weight.out = dweight ? dweight.ptr<float>() : nullptr;
  by_weight.out_stride = weights.cols;
  by_weight.out_step = weights.rows * weights.cols;
  by_weight.m = weights.rows;
  by_weight.k = dout.dim(0);
  return {by_input, by_weight, x_is_bf16 && w_is_bf16};
}

}  // namespace

void launch_linear_back(const LinearBackArgs& args, const Gpu& gpu) {
  if (args.dout.dim(0) == 0) return;
  const Products products =
      products_of(args.op.x, args.op.weight, args.dout, args.dx, args.dweight, 1);
  launch(products, static_cast<bool>(args.dx), static_cast<bool>(args.dweight), gpu);
  launch_zero(args.dout, nullptr, gpu);
}

GroupedLinearBackTemporaries::GroupedLinearBackTemporaries(const GroupedLinearBackArgs& args,
                                                           Arena& scratch) {
  if (args.dx && args.op.rows) {
    dx = scratch.take(DType::kF32, {args.dout.dim(0), args.dx.dim(1)});
  }
}

// Rows of dx that several experts read are added to in the order of the experts' rows.
void launch_grouped_linear_back(const GroupedLinearBackArgs& args, Arena& scratch, const Gpu& gpu) {
  const std::int64_t rows = args.dout.dim(0);
  const auto experts = static_cast<int>(args.op.weights.count);
  if (rows == 0 || experts == 0) return;
  const Arena::Scope scope(scratch);
  const auto* const offsets = args.op.offsets.ptr<std::int32_t>();
  const bool gathers = static_cast<bool>(args.op.rows);
  const GroupedLinearBackTemporaries memory(args, scratch);
  const Tensor dx = memory.dx ? memory.dx : args.dx;
  Products products =
      products_of(args.op.x, args.op.weights, args.dout, dx, args.dweights, experts);
  products.by_input.adds = !gathers;
  products.by_input.offsets = products.by_weight.offsets = offsets;
  if (gathers) products.by_weight.b_rows = args.op.rows.ptr<std::int32_t>();
  launch(products, static_cast<bool>(dx), static_cast<bool>(args.dweights), gpu);
  if (dx && gathers) {
    launch_add_at({.places = args.op.rows, .limit = offsets + experts, .from = dx, .to = args.dx},
                  scratch, gpu);
  }
  launch_zero(args.dout, offsets + experts, gpu);
}

void launch_per_head_back(const PerHeadBackArgs& args, const Gpu& gpu) {
  if (args.dout.size() == 0) return;
  const Products products = products_of(args.op.x, args.op.weights, args.dout, args.dx,
                                        args.dweights, static_cast<int>(args.dout.dim(1)));
  launch(products, static_cast<bool>(args.dx), static_cast<bool>(args.dweights), gpu);
  launch_zero(args.dout, nullptr, gpu);
}

}  // namespace glint::cuda
