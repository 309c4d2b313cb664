#include "ops/kv_write.h"

#include "tensor/shape_check.h"

namespace glint {

void check(const WriteLatentArgs& args) {
  ShapeCheck c("write_latent");
  c.require(args.cache.data != nullptr, "there is no cache");
  c.size("latent_dim", args.cache.latent_dim, "the cache");
  c.size("rope_dim", args.cache.rope_dim, "the cache");
  c.strided("latent", args.latent, kFloats, {"T", "latent_dim"});
  c.strided("k_rope", args.k_rope, args.latent.dtype, {"T", "rope_dim"});
  c.dense("slots", args.slots, DType::kI32, {"T"});
}

OpCost cost(const WriteLatentArgs& args) {
  return {.bytes = bytes_of(args.latent) + bytes_of(args.k_rope) + bytes_of(args.slots) +
                   static_cast<double>(args.slots.size()) * args.cache.row_bytes(),
          .cache_bytes = static_cast<double>(args.slots.size()) * args.cache.row_bytes()};
}

void check(const WriteIndexArgs& args) {
  ShapeCheck c("write_index");
  c.require(args.cache.data != nullptr, "there is no cache");
  c.size("dim", args.cache.dim, "the cache");
  c.dense("k", args.k, kFloats, {"T", "dim"});
  c.dense("slots", args.slots, DType::kI32, {"T"});
}

OpCost cost(const WriteIndexArgs& args) {
  return {
      .bytes = bytes_of(args.k) + bytes_of(args.slots) +
               static_cast<double>(args.slots.size()) * args.cache.page_bytes() / kPageSize,
      .cache_bytes = static_cast<double>(args.slots.size()) * args.cache.page_bytes() / kPageSize};
}

}  // namespace glint
