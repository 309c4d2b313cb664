// Ops: the seam between the model and a backend.
//
// Primitives (op_list.h, one method each) are pure virtual: a backend that lacks one does not
// compile. Blocks (blocks/blocks.h) have a default that composes primitives; a backend may override
// them. Every method may return before the device is done; order is kept.
//
// Each op's check(), which every backend calls first, aborts on a wrong shape, type or stride and
// names it. It does not read memory: an index out of range is undefined behaviour, which only the
// reference backend finds.
#pragma once

#include <memory>
#include <span>

#include "base/result.h"
#include "ops/blocks/blocks.h"
#include "ops/elementwise.h"
#include "ops/kv_write.h"
#include "ops/linear.h"
#include "ops/moe.h"
#include "ops/norm.h"
#include "ops/op_list.h"
#include "ops/rope.h"
#include "ops/sampling.h"
#include "ops/select_keys.h"
#include "ops/sequences.h"
#include "ops/sparse_mla.h"
#include "ops/weight_plan.h"
#include "tensor/arena.h"
#include "tensor/device.h"

namespace glint {

struct Capabilities;
class Gradients;
class PlanOps;
class ThreadPool;

class Ops {
 public:
  virtual ~Ops() = default;

  virtual Device& device() = 0;
  virtual Capabilities capabilities() const = 0;  // ops/capabilities.h

  // Whether its kernels hold a model of these sizes: kUnsupported, naming the size and what there
  // is room for. Asked before the first weight is read.
  virtual Status supports(const ModelDims&) const { return Ok{}; }

  // The backend's threads of the host, for work between ops; null: it has none.
  virtual ThreadPool* host_threads() { return nullptr; }

  // Placement: once at load, weights go from mapped files to where this backend's kernels read
  // them, in the order that suits these. Products take weights packed or not, and give the same
  // bits. The defaults leave weights in host memory where they are, and copy them to other devices
  // as they are.
  //
  // Bytes that `weight` needs when packed; 0: it is best where it is.
  virtual std::int64_t packed_bytes(const Weight& weight);
  // `weight` as it will be when pack() has written it to `to`, aligned to 64 bytes; refers to no
  // other memory. May not read the weight, nor `to`.
  virtual Weight packed(const Weight& weight, std::byte* to);
  // Writes `to`, which packed() described, for each pair, on `threads` of the host. `from` is in
  // host memory and may be gone when the call returns.
  virtual void pack(std::span<const PackedPair> pairs, ThreadPool& threads);
  // These place weights that should lie together in memory, as the parts of a fused product; the
  // rest of a block then follows matrix by matrix.
  virtual void place_attention(AttentionWeights&, WeightPlan&) {}
  virtual void place_ffn(FfnWeights&, WeightPlan&) {}
  virtual void place_moe(MoeWeights&, WeightPlan&) {}

#define GLINT_OP(Type, name) virtual void name(const Type##Args& args) = 0;
  GLINT_FOR_EACH_OP(GLINT_OP)
#undef GLINT_OP

  // The backward passes of these ops (ops/backward.h), on the same device and threads; the result
  // does not outlive them. Null: this backend has none.
  virtual std::unique_ptr<Gradients> make_gradients();

  // For planning (ops/plan_ops.h): the arguments checked, the memory taken, nothing computed. On
  // `device`, whose memory is not touched; the result outlives neither.
  virtual std::unique_ptr<PlanOps> make_plan_ops(Device& device);
  // Memory that the backend holds for itself, beside arenas; planned ops: that it would hold.
  virtual std::int64_t scratch_bytes() const { return 0; }

  // `scratch` holds temporaries; everything taken from it is given back on return.
  virtual void attention_in(const AttentionInArgs& args, Arena& scratch);
  virtual void select_and_attend(const SelectAndAttendArgs& args, Arena& scratch);
  virtual void attention_out(const AttentionOutArgs& args, Arena& scratch);
  virtual void dense_ffn(const DenseFfnArgs& args, Arena& scratch);
  virtual void moe(const MoeArgs& args, Arena& scratch);
  virtual void moe_route(const MoeRouteArgs& args, Arena& scratch);
  virtual void moe_experts(const MoeExpertsArgs& args, Arena& scratch);
  virtual void moe_combine(const MoeCombineArgs& args, Arena& scratch);
  virtual void head(const HeadArgs& args, Arena& scratch);
};

}  // namespace glint
