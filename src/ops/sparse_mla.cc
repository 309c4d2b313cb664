#include "ops/sparse_mla.h"

#include <algorithm>

#include "ops/visible_keys.h"
#include "tensor/shape_check.h"

namespace glint {

void check(const SparseMlaArgs& args) {
  ShapeCheck c("sparse_mla");
  c.strided("q_latent", args.q_latent, kFloats, {"T", "H", "latent"});
  c.strided("q_rope", args.q_rope, args.q_latent.dtype, {"T", "H", "rope"});
  c.require(args.kv.data != nullptr, "there is no cache");
  c.size("latent", args.kv.latent_dim, "the cache");
  c.size("rope", args.kv.rope_dim, "the cache");
  c.dense("indices", args.indices, DType::kI32, {"T", "k"});
  c.strided("out", args.out, args.q_latent.dtype, {"T", "H", "latent"});
  if (args.lse) c.dense("lse", args.lse, DType::kF32, {"T", "H"});
}

namespace {

// `keys`: pairs of a token and a key; `rows`: of the cache, that are read.
OpCost cost_of(const SparseMlaArgs& args, double keys, double rows) {
  const double heads = static_cast<double>(args.q_latent.dim(1));
  const double cache = rows * static_cast<double>(args.kv.row_bytes());
  return {.flops = 2 * keys * heads * (2.0 * args.kv.latent_dim + args.kv.rope_dim),
          .bytes = cache + bytes_of(args.q_latent) + bytes_of(args.q_rope) +
                   bytes_of(args.indices) + bytes_of(args.out) + bytes_of(args.lse),
          .cache_bytes = cache};
}

}  // namespace

OpCost cost(const SparseMlaArgs& args) {
  const double all = static_cast<double>(args.indices.size());
  return cost_of(args, all, all);
}

// No row of a sequence is read twice: tokens of one prompt select many of the same keys.
OpCost cost(const SparseMlaArgs& args, const Assume& assume) {
  const double most = static_cast<double>(args.indices.dim(1));
  const VisibleKeys visible(assume);
  const double beyond = visible.share_beyond(most);
  const double mean = beyond * most + (1 - beyond) * visible.mean_within(most);
  const double keys = static_cast<double>(args.indices.dim(0)) * mean;
  return cost_of(args, keys, std::min(keys, assume.sequences * assume.longest));
}

}  // namespace glint
