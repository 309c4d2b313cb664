#include "ops/elementwise.h"

#include "tensor/shape_check.h"

namespace glint {

void check(const EmbedArgs& args) {
  ShapeCheck c("embed");
  c.dense("ids", args.ids, DType::kI32, {"T"});
  c.dense("table", args.table, kFloats, {"V", "D"});
  c.dense("out", args.out, kFloats, {"T", "D"});
  c.require(args.first >= 0 && (args.is_part || args.first == 0),
            "only the table of a part begins at another token than 0");
}

OpCost cost(const EmbedArgs& args) {
  const double row = static_cast<double>(args.table.dim(1)) * size_of(args.table.dtype);
  return {.bytes = bytes_of(args.ids) + args.ids.size() * row + bytes_of(args.out)};
}

void check(const GatherRowsArgs& args) {
  ShapeCheck c("gather_rows");
  c.dense("x", args.x, kFloats, {"S", "D"});
  c.dense("rows", args.rows, DType::kI32, {"R"});
  c.dense("out", args.out, args.x.dtype, {"R", "D"});
}

OpCost cost(const GatherRowsArgs& args) {
  return {.bytes = bytes_of(args.rows) + 2 * bytes_of(args.out)};
}

void check(const AddArgs& args) {
  ShapeCheck c("add");
  c.dense("x", args.x, kFloats, {"T", "D"});
  c.dense("y", args.y, kFloats, {"T", "D"});
}

OpCost cost(const AddArgs& args) {
  return {.flops = static_cast<double>(args.x.size()), .bytes = 3 * bytes_of(args.x)};
}

void check(const SiluMulArgs& args) {
  ShapeCheck c("silu_mul");
  c.dense("gate", args.gate, kFloats, {"T", "D"});
  c.dense("up", args.up, args.gate.dtype, {"T", "D"});
  c.dense("out", args.out, args.gate.dtype, {"T", "D"});
}

OpCost cost(const SiluMulArgs& args) {
  // exp counts as one.
  return {.flops = 5.0 * args.gate.size(), .bytes = 3 * bytes_of(args.gate)};
}

}  // namespace glint
