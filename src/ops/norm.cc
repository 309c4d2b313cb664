#include "ops/norm.h"

#include "tensor/shape_check.h"

namespace glint {

void check(const RmsNormArgs& args) {
  ShapeCheck c("rms_norm");
  c.strided("x", args.x, kFloats, {"T", "D"});
  // Without rows they may lie at one address and be two tensors.
  const bool in_place = args.out.data == args.x.data && args.x.size() > 0;
  if (args.delta) {
    c.dense("delta", args.delta, kFloats, {"T", "D"});
    c.require(!in_place, "out must not be x when delta is given");
  }
  c.require(!in_place || args.out.dtype == args.x.dtype,
            "out must not be x when it is of another type");
  c.dense("weight", args.weight, kFloats, {"D"});
  c.strided("out", args.out, kFloats, {"T", "D"});
}

OpCost cost(const RmsNormArgs& args) {
  const double n = static_cast<double>(args.x.size());
  return {.flops = (args.delta ? 5 : 4) * n,
          .bytes = (args.delta ? 2 : 1) * bytes_of(args.x) + bytes_of(args.delta) +
                   bytes_of(args.weight) + bytes_of(args.out)};
}

void check(const LayerNormArgs& args) {
  ShapeCheck c("layer_norm");
  c.dense("x", args.x, kFloats, {"T", "D"});
  c.dense("weight", args.weight, kFloats, {"D"});
  c.dense("bias", args.bias, kFloats, {"D"});
  c.dense("out", args.out, kFloats, {"T", "D"});
}

OpCost cost(const LayerNormArgs& args) {
  return {
      .flops = 8.0 * args.x.size(),
      .bytes = bytes_of(args.x) + bytes_of(args.weight) + bytes_of(args.bias) + bytes_of(args.out)};
}

}  // namespace glint
