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
  c.dense("lengths", args.lengths, DType::kI32, {"N"});
  if (args.rejected) c.dense("rejected", args.rejected, DType::kI32, {"N"});
  c.dense("guesses", args.guesses, DType::kI32, {"G"});
  c.dense("ids", args.ids, DType::kI32, {"T"});
  c.dense("positions", args.positions, DType::kI32, {"T"});
  c.dense("slots", args.slots, DType::kI32, {"T"});
  c.dense("seqs", args.seqs, DType::kI32, {"T"});
}

OpCost cost(const PlaceRowsArgs& args) {
  return {.bytes = 5 * bytes_of(args.tokens) + bytes_of(args.slices)};
}

void check(const PlaceDrawsArgs& args) {
  ShapeCheck c("place_draws");
  c.dense("positions", args.positions, DType::kI32, {"R"});
  c.dense("drafts", args.drafts, DType::kI32, {"R"});
  c.dense("seats", args.seats, DType::kI32, {"R"});
  c.dense("lengths", args.lengths, DType::kI32, {"N"});
  c.dense("guesses", args.guesses, DType::kI32, {"G"});
}

OpCost cost(const PlaceDrawsArgs& args) { return {.bytes = 5 * bytes_of(args.positions)}; }

void check(const AcceptArgs& args) {
  ShapeCheck c("accept");
  c.dense("tokens", args.tokens, DType::kI32, {"R"});
  c.dense("drafts", args.drafts, DType::kI32, {"R"});
  c.dense("draws", args.draws, DType::kI32, {"S", "4"});
  c.require(args.draws.dim(1) == 4, "a draw has not four numbers");
  c.dense("last", args.last, DType::kI32, {"N"});
  c.dense("lengths", args.lengths, DType::kI32, {"N"});
  c.dense("rejected", args.rejected, DType::kI32, {"N"});
}

OpCost cost(const AcceptArgs& args) {
  return {.bytes = 2 * bytes_of(args.tokens) + 2 * bytes_of(args.draws)};
}

void check(const KeepRowsArgs& args) {
  ShapeCheck c("keep_rows");
  c.dense("x", args.x, kFloats, {"T", "D"});
  c.dense("rows", args.rows, DType::kI32, {"S"});
  c.dense("seats", args.seats, DType::kI32, {"S"});
  c.dense("rejected", args.rejected, DType::kI32, {"N"});
  c.dense("out", args.out, args.x.dtype, {"N", "D"});
}

OpCost cost(const KeepRowsArgs& args) {
  const double row = static_cast<double>(args.x.dim(1)) * size_of(args.x.dtype);
  return {.bytes = 3 * bytes_of(args.rows) + 2 * args.rows.size() * row};
}

void check(const CountTokensArgs& args) {
  ShapeCheck c("count_tokens");
  c.dense("tokens", args.tokens, DType::kI32, {"R"});
  c.dense("drafts", args.drafts, DType::kI32, {"R"});
  c.dense("seats", args.seats, DType::kI32, {"R"});
  c.dense("counts", args.counts, DType::kI32, {"N", "V"});
}

OpCost cost(const CountTokensArgs& args) { return {.bytes = 5 * bytes_of(args.tokens)}; }

}  // namespace glint
