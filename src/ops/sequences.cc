#include "ops/sequences.h"

#include "tensor/shape_check.h"

namespace glint {

void check(const PlaceRowsArgs& args) {
  ShapeCheck c("place_rows");
  c.dense("tokens", args.tokens, DType::kI32, {"T"});
  c.dense("slices", args.slices, DType::kI32, {"S", "4"});
  c.require(args.slices.dim(1) == 4, "a slice has not four numbers");
  c.dense("page_table", args.page_table, DType::kI32, {"S", "P"});
  c.dense("last", args.last, DType::kI32, {"N"});
  c.dense("ids", args.ids, DType::kI32, {"T"});
  c.dense("positions", args.positions, DType::kI32, {"T"});
  c.dense("slots", args.slots, DType::kI32, {"T"});
  c.dense("seqs", args.seqs, DType::kI32, {"T"});
}

OpCost cost(const PlaceRowsArgs& args) {
  return {.bytes = 5 * bytes_of(args.tokens) + bytes_of(args.slices)};
}

void check(const KeepTokensArgs& args) {
  ShapeCheck c("keep_tokens");
  c.dense("tokens", args.tokens, DType::kI32, {"R"});
  c.dense("seats", args.seats, DType::kI32, {"R"});
  c.dense("last", args.last, DType::kI32, {"N"});
}

OpCost cost(const KeepTokensArgs& args) { return {.bytes = 3 * bytes_of(args.tokens)}; }

void check(const CountTokensArgs& args) {
  ShapeCheck c("count_tokens");
  c.dense("tokens", args.tokens, DType::kI32, {"R"});
  c.dense("drafts", args.drafts, DType::kI32, {"R"});
  c.dense("seats", args.seats, DType::kI32, {"R"});
  c.dense("counts", args.counts, DType::kI32, {"N", "V"});
}

OpCost cost(const CountTokensArgs& args) { return {.bytes = 5 * bytes_of(args.tokens)}; }

}  // namespace glint
