// Ops: the seam between the model and a backend.
//
// Primitives are pure virtual: a backend that lacks one does not compile. Blocks (blocks/blocks.h)
// have a default that composes primitives; a backend may override them. Every method may return
// before the device is done; order is kept.
//
// Each op's check(), which every backend calls first, aborts on a wrong shape, type or stride and
// names it. It does not read memory: an index out of range is undefined behaviour, which only the
// reference backend finds.
#pragma once

#include <span>

#include "base/result.h"
#include "ops/blocks/blocks.h"
#include "ops/elementwise.h"
#include "ops/kv_write.h"
#include "ops/linear.h"
#include "ops/moe.h"
#include "ops/norm.h"
#include "ops/rope.h"
#include "ops/select_keys.h"
#include "ops/sparse_mla.h"
#include "tensor/arena.h"
#include "tensor/device.h"

namespace glint {

struct Capabilities;
class ThreadPool;

// A weight in the order of its file, and packed.
struct PackedPair {
  Weight from = {}, to = {};
};

class Ops {
 public:
  virtual ~Ops() = default;

  virtual Device& device() = 0;
  virtual Capabilities capabilities() const = 0;  // ops/capabilities.h

  // The backend's threads of the host, for work between ops; null: it has none.
  virtual ThreadPool* host_threads() { return nullptr; }

  // Packing: once at load, a backend may put weights into the order that its kernels read. Products
  // take weights packed or not, and give the same bits.
  //
  // Bytes that `weight` needs when packed; 0: it is best where it is.
  virtual std::int64_t packed_bytes(const Weight&) const { return 0; }
  // `weight` as it will be when pack() has written it to `to`, aligned to 64 bytes; refers to no
  // other memory.
  virtual Weight packed(const Weight& weight, std::byte*) const { return weight; }
  // Writes `to`, which packed() described, for each pair, in parallel.
  virtual void pack(std::span<const PackedPair>) {}

  virtual void embed(const EmbedArgs& args) = 0;
  virtual void gather_rows(const GatherRowsArgs& args) = 0;
  virtual void add(const AddArgs& args) = 0;
  virtual void silu_mul(const SiluMulArgs& args) = 0;
  virtual void rms_norm(const RmsNormArgs& args) = 0;
  virtual void layer_norm(const LayerNormArgs& args) = 0;
  virtual void rope(const RopeArgs& args) = 0;
  virtual void linear(const LinearArgs& args) = 0;
  virtual void grouped_linear(const GroupedLinearArgs& args) = 0;
  virtual void per_head(const PerHeadArgs& args) = 0;
  virtual void write_latent(const WriteLatentArgs& args) = 0;
  virtual void write_index(const WriteIndexArgs& args) = 0;
  virtual void select_keys(const SelectKeysArgs& args) = 0;
  virtual void sparse_mla(const SparseMlaArgs& args) = 0;
  virtual void route(const RouteArgs& args) = 0;
  virtual void permute(const PermuteArgs& args) = 0;
  virtual void combine(const CombineArgs& args) = 0;

  // `scratch` holds temporaries; everything taken from it is given back on return.
  virtual void attention_in(const AttentionInArgs& args, Arena& scratch);
  virtual void select_and_attend(const SelectAndAttendArgs& args, Arena& scratch);
  virtual void attention_out(const AttentionOutArgs& args, Arena& scratch);
  virtual void dense_ffn(const DenseFfnArgs& args, Arena& scratch);
  virtual void moe(const MoeArgs& args, Arena& scratch);
  virtual void head(const HeadArgs& args, Arena& scratch);
};

}  // namespace glint
