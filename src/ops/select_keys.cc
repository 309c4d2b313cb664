#include "ops/select_keys.h"

#include <algorithm>
#include <vector>

#include "ops/visible_keys.h"
#include "tensor/shape_check.h"

namespace glint {

void check(const SelectKeysArgs& args) {
  ShapeCheck c("select_keys");
  c.require(static_cast<bool>(args.cache), "there is no cache");
  c.size("D", args.cache.dim, "the cache");
  if (args.q) {
    c.dense("q", args.q, kFloats, {"T", "Hi", "D"});
    c.dense("weights", args.weights, DType::kF32, {"T", "Hi"});
  }
  c.dense("positions", args.batch.positions, DType::kI32, {"T"});
  c.dense("seqs", args.batch.seqs, DType::kI32, {"T"});
  c.dense("page_table", args.batch.page_table, DType::kI32, {"S", "P"});
  c.dense("out", args.out, DType::kI32, {"T", "k"});
}

namespace {

OpCost cost_of(const SelectKeysArgs& args, double scores, double keys_bytes) {
  return {.flops = scores * args.q.dim(1) * (2.0 * args.q.dim(2) + 3),
          .bytes = bytes_of(args.q) + bytes_of(args.weights) + bytes_of(args.out) + keys_bytes,
          .cache_bytes = keys_bytes};
}

}  // namespace

OpCost cost(const SelectKeysArgs& args) {
  const std::int32_t* positions = args.batch.positions.ptr<std::int32_t>();
  const std::int32_t* seqs = args.batch.seqs.ptr<std::int32_t>();
  // A sequence's keys are read once for all of its tokens; a row that selects all reads none.
  std::vector<double> keys_read(args.batch.page_table.dim(0));
  double scores = 0;
  for (std::int64_t t = 0; t < args.out.dim(0); ++t) {
    const double visible = positions[t] + 1.0;
    if (visible <= static_cast<double>(args.out.dim(1))) continue;
    scores += visible;
    keys_read[seqs[t]] = std::max(keys_read[seqs[t]], visible);
  }
  if (scores == 0) return {.flops = 0, .bytes = bytes_of(args.out)};
  double keys_bytes = 0;
  for (const double keys : keys_read) keys_bytes += keys * args.cache.page_bytes() / kPageSize;
  return cost_of(args, scores, keys_bytes);
}

OpCost cost(const SelectKeysArgs& args, const Assume& assume) {
  // A row that selects all scores none.
  const VisibleKeys visible(assume);
  const double most = static_cast<double>(args.out.dim(1)), beyond = visible.share_beyond(most);
  if (!args.q || beyond == 0) return {.bytes = bytes_of(args.out)};
  const double mean = beyond * visible.mean_beyond(most);
  return cost_of(
      args, static_cast<double>(args.out.dim(0)) * mean,
      assume.sequences * assume.longest * static_cast<double>(args.cache.page_bytes()) / kPageSize);
}

}  // namespace glint
