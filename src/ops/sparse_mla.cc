#include "ops/sparse_mla.h"

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

OpCost cost(const SparseMlaArgs& args) {
  const double rows = static_cast<double>(args.indices.size());
  const double heads = static_cast<double>(args.q_latent.dim(1));
  return {.flops = 2 * rows * heads * (2.0 * args.kv.latent_dim + args.kv.rope_dim),
          .bytes = rows * args.kv.row_bytes() + bytes_of(args.q_latent) + bytes_of(args.q_rope) +
                   bytes_of(args.indices) + bytes_of(args.out) + bytes_of(args.lse)};
}

}  // namespace glint
