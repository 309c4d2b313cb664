#include "ops/sampling.h"

#include "tensor/shape_check.h"

namespace glint {
namespace {

void check_ids(ShapeCheck& c, std::int64_t num_ids) {
  c.require(num_ids >= 1 && num_ids <= c["V"], "num_ids is not in [1, V]");
}

// One pass over the logits, at a few operations each.
OpCost pass_cost(const Tensor& logits, double rows, double passes) {
  const double elements = rows * static_cast<double>(logits.dim(1));
  return {.flops = 8 * elements * passes, .bytes = 4 * elements * passes};
}

}  // namespace

void check(const SampleArgs& args) {
  ShapeCheck c("sample");
  c.strided("logits", args.logits, DType::kF32, {"R", "V"});
  check_ids(c, args.num_ids);
  c.dense("scales", args.scales, DType::kF32, {"R"});
  c.dense("top_k", args.top_k, DType::kI32, {"R"});
  c.dense("top_p", args.top_p, DType::kF32, {"R"});
  c.dense("min_p", args.min_p, DType::kF32, {"R"});
  c.dense("seeds", args.seeds, DType::kI32, {"R", "2"});
  c.dense("positions", args.positions, DType::kI32, {"R"});
  if (args.masks) {
    c.dense("masks", args.masks, DType::kI32, {"M", "W"});
    c.dense("mask_rows", args.mask_rows, DType::kI32, {"R"});
    c.require(args.masks.dim(1) * 32 >= args.num_ids, "the masks are shorter than the ids");
  }
  if (args.edit_begins) {
    c.dense("edit_begins", args.edit_begins, DType::kI32, {"R + 1"});
    c.require(c["R + 1"] == c["R"] + 1, "edit_begins has not one entry more than there are rows");
    c.dense("edit_ids", args.edit_ids, DType::kI32, {"N"});
    c.dense("edit_values", args.edit_values, DType::kF32, {"N"});
  }
  if (args.counts) {
    c.dense("counts", args.counts, DType::kI32, {"S", "counted ids"});
    c.require(args.counts.dim(1) >= args.num_ids, "the counts are of fewer ids");
    c.dense("seats", args.seats, DType::kI32, {"R"});
    c.dense("penalties", args.penalties, DType::kI32, {"R", "3", "2"});
    c.require(args.penalties.dim(1) == 3 && args.penalties.dim(2) == 2,
              "the penalties of a row are not three numbers of two halves");
    c.dense("drafts", args.drafts, DType::kI32, {"R"});
  }
  c.require(args.seeds.dim(1) == 2, "a seed has not two halves");
  if (args.work || args.masks || args.edit_begins || args.counts) {
    c.dense("work", args.work, DType::kF32, {"R", "V"});
  }
  c.dense("tokens", args.tokens, DType::kI32, {"R"});
}

OpCost cost(const SampleArgs& args) {
  return pass_cost(args.logits, static_cast<double>(args.logits.dim(0)), 4);
}

void check(const ArgmaxArgs& args) {
  ShapeCheck c("argmax");
  c.strided("logits", args.logits, DType::kF32, {"R", "V"});
  check_ids(c, args.num_ids);
  c.dense("tokens", args.tokens, DType::kI32, {"R"});
}

OpCost cost(const ArgmaxArgs& args) {
  return pass_cost(args.logits, static_cast<double>(args.logits.dim(0)), 1);
}

void check(const TokenLogProbsArgs& args) {
  ShapeCheck c("token_log_probs");
  c.strided("logits", args.logits, DType::kF32, {"R", "V"});
  check_ids(c, args.num_ids);
  c.dense("rows", args.rows, DType::kI32, {"N"});
  c.dense("ids", args.ids, DType::kI32, {"R"});
  c.dense("log_probs", args.log_probs, DType::kF32, {"N"});
  c.dense("ranks", args.ranks, DType::kI32, {"N"});
  c.dense("top_ids", args.top_ids, DType::kI32, {"N", "K"});
  c.dense("top_log_probs", args.top_log_probs, DType::kF32, {"N", "K"});
}

OpCost cost(const TokenLogProbsArgs& args) {
  return pass_cost(args.logits, static_cast<double>(args.rows.dim(0)), 2);
}

}  // namespace glint
