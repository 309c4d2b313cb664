#include "ops/moe.h"

#include "tensor/shape_check.h"

namespace glint {

void check(const RouteArgs& args) {
  ShapeCheck c("route");
  c.dense("logits", args.logits, DType::kF32, {"T", "E"});
  c.dense("bias", args.bias, DType::kF32, {"E"});
  if (args.positions) c.dense("positions", args.positions, DType::kI32, {"T"});
  c.dense("ids", args.ids, DType::kI32, {"T", "k"});
  c.dense("weights", args.weights, DType::kF32, {"T", "k"});
  c.require(args.n_group >= 1 && c["E"] % args.n_group == 0, "E is no multiple of n_group");
  c.require(args.topk_group >= 1 && args.topk_group <= args.n_group,
            "topk_group is not in [1, n_group]");
  c.require(c["k"] <= c["E"] / args.n_group * args.topk_group,
            "k is more than the experts of topk_group groups");
}

OpCost cost(const RouteArgs& args) {
  return {.flops = 5.0 * args.logits.size(),
          .bytes = bytes_of(args.logits) + bytes_of(args.bias) + bytes_of(args.ids) +
                   bytes_of(args.weights)};
}

void check(const PickCopiesArgs& args) {
  ShapeCheck c("pick_copies");
  c.dense("ids", args.ids, DType::kI32, {"T", "k"});
  c.dense("positions", args.positions, DType::kI32, {"T"});
  c.dense("first", args.first, DType::kI32, {"E + 1"});
  c.require(c["E + 1"] >= 2, "first is too short");
  c.dense("copies", args.copies, DType::kI32, {"P"});
  c.require(c["P"] + 1 >= c["E + 1"], "there are fewer copies than experts");
  c.dense("slots", args.slots, DType::kI32, {"T", "k"});
}

OpCost cost(const PickCopiesArgs& args) {
  return {.bytes = bytes_of(args.ids) + bytes_of(args.positions) + bytes_of(args.first) +
                   bytes_of(args.copies) + bytes_of(args.slots)};
}

void check(const CountExpertsArgs& args) {
  ShapeCheck c("count_experts");
  c.dense("ids", args.ids, DType::kI32, {"L T", "k"});
  c.dense("counts", args.counts, DType::kI32, {"L", "E"});
  c.require(c["L"] >= 1 && c["L T"] % c["L"] == 0, "counts do not divide the rows of ids");
}

OpCost cost(const CountExpertsArgs& args) {
  return {.bytes = bytes_of(args.ids) + 2.0 * std::min(bytes_of(args.ids), bytes_of(args.counts))};
}

void check(const PermuteArgs& args) {
  ShapeCheck c("permute");
  c.dense("ids", args.ids, DType::kI32, {"T", "k"});
  c.size("T k", c["T"] * c["k"], "ids");
  c.dense("rows", args.rows, DType::kI32, {"T k"});
  c.dense("offsets", args.offsets, DType::kI32, {"E + 1"});
  c.require(c["E + 1"] >= 2, "offsets is too short");
  c.dense("places", args.places, DType::kI32, {"T", "k"});
}

OpCost cost(const PermuteArgs& args) {
  return {.bytes = bytes_of(args.ids) + bytes_of(args.rows) + bytes_of(args.offsets) +
                   bytes_of(args.places)};
}

void check(const RegroupArgs& args) {
  ShapeCheck c("regroup");
  c.dense("offsets", args.offsets, DType::kI32, {"S", "E + 1"});
  c.dense("rows", args.rows, DType::kI32, {"R"});
  c.dense("groups", args.groups, DType::kI32, {"count + 1"});
  c.dense("places", args.places, DType::kI32, {"R"});
  c.require(args.first >= 0 && c["count + 1"] >= 1 && args.first + c["count + 1"] <= c["E + 1"],
            "the experts are not among those of offsets");
}

OpCost cost(const RegroupArgs& args) {
  return {.bytes = bytes_of(args.offsets) + bytes_of(args.rows) + bytes_of(args.groups) +
                   bytes_of(args.places)};
}

void check(const CombineArgs& args) {
  ShapeCheck c("combine");
  c.dense("places", args.places, DType::kI32, {"T", "k"});
  c.dense("weights", args.weights, DType::kF32, {"T", "k"});
  c.size("T k", c["T"] * c["k"], "places");
  c.dense("y", args.y, kFloats, {"T k", "D"});
  if (args.shared) c.dense("shared", args.shared, args.y.dtype, {"T", "D"});
  c.dense("out", args.out, args.y.dtype, {"T", "D"});
}

OpCost cost(const CombineArgs& args) {
  return {.flops = 2.0 * args.y.size() + args.shared.size(),
          .bytes = bytes_of(args.y) + bytes_of(args.places) + bytes_of(args.weights) +
                   bytes_of(args.shared) + bytes_of(args.out)};
}

}  // namespace glint
