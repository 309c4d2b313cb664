// The reference of write_latent and write_index (ops/kv_write.h).
#include "backends/reference/numeric.h"
#include "backends/reference/reference_ops.h"
#include "ops/kv_rows.h"

namespace glint {

using namespace reference;

void ReferenceOps::write_latent(const WriteLatentArgs& args) {
  check(args);
  for (std::int64_t t = 0; t < args.slots.dim(0); ++t) {
    const std::int64_t slot = index_or_padding(args.slots, t, args.cache.num_slots, "slot");
    if (slot < 0) continue;
    write_latent_row(args.cache, slot, floats_of(args.latent.slice(0, t, 1)).data(),
                     floats_of(args.k_rope.slice(0, t, 1)).data());
  }
}

void ReferenceOps::write_index(const WriteIndexArgs& args) {
  check(args);
  for (std::int64_t t = 0; t < args.slots.dim(0); ++t) {
    const std::int64_t slot = index_or_padding(args.slots, t, args.cache.num_slots, "slot");
    if (slot < 0) continue;
    write_index_key(args.cache, slot, floats_of(args.k.slice(0, t, 1)).data());
  }
}

}  // namespace glint
