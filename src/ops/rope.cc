#include "ops/rope.h"

#include "tensor/shape_check.h"

namespace glint {

void check(const RopeArgs& args) {
  ShapeCheck c("rope");
  c.strided("x", args.x, kFloats, {"T", "H", "R"});
  c.require(c["R"] % 2 == 0, "R is odd");
  c.size("R/2", c["R"] / 2, "half of x[2]");
  c.dense("cos", args.cos, DType::kF32, {"T", "R/2"});
  c.dense("sin", args.sin, DType::kF32, {"T", "R/2"});
}

OpCost cost(const RopeArgs& args) {
  return {.flops = 3.0 * args.x.size(),
          .bytes = 2 * bytes_of(args.x) + bytes_of(args.cos) + bytes_of(args.sin)};
}

}  // namespace glint
