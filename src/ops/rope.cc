#include "ops/rope.h"

#include "tensor/shape_check.h"

namespace glint {

void check(const RopeArgs& args) {
  ShapeCheck c("rope");
  c.strided("x", args.x, kFloats, {"T", "H", "R"});
  c.require(c["R"] % 2 == 0, "R is odd");
  c.dense("positions", args.positions, DType::kI32, {"T"});
  c.dense("table", args.table, DType::kF32, {"P", "R"});
}

OpCost cost(const RopeArgs& args) {
  return {.flops = 3.0 * args.x.size(),
          .bytes = 2 * bytes_of(args.x) + bytes_of(args.positions) +
                   static_cast<double>(args.positions.size()) * args.x.dim(2) * 4};
}

}  // namespace glint
