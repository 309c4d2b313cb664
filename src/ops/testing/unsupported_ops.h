// UnsupportedOps: every primitive aborts, naming the op. The base of test doubles, and of a backend
// that is growing: its capabilities() name what it overrides, so that the loader refuses a model
// that needs more, and an abort here is a bug.
#pragma once

#include "base/str.h"
#include "ops/capabilities.h"
#include "ops/ops.h"

namespace glint {

class UnsupportedOps : public Ops {
 public:
  void embed(const EmbedArgs&) override { refuse(Op::kEmbed); }
  void gather_rows(const GatherRowsArgs&) override { refuse(Op::kGatherRows); }
  void add(const AddArgs&) override { refuse(Op::kAdd); }
  void silu_mul(const SiluMulArgs&) override { refuse(Op::kSiluMul); }
  void rms_norm(const RmsNormArgs&) override { refuse(Op::kRmsNorm); }
  void layer_norm(const LayerNormArgs&) override { refuse(Op::kLayerNorm); }
  void rope(const RopeArgs&) override { refuse(Op::kRope); }
  void linear(const LinearArgs&) override { refuse(Op::kLinear); }
  void grouped_linear(const GroupedLinearArgs&) override { refuse(Op::kGroupedLinear); }
  void per_head(const PerHeadArgs&) override { refuse(Op::kPerHead); }
  void write_latent(const WriteLatentArgs&) override { refuse(Op::kWriteLatent); }
  void write_index(const WriteIndexArgs&) override { refuse(Op::kWriteIndex); }
  void select_keys(const SelectKeysArgs&) override { refuse(Op::kSelectKeys); }
  void sparse_mla(const SparseMlaArgs&) override { refuse(Op::kSparseMla); }
  void route(const RouteArgs&) override { refuse(Op::kRoute); }
  void permute(const PermuteArgs&) override { refuse(Op::kPermute); }
  void combine(const CombineArgs&) override { refuse(Op::kCombine); }

 private:
  [[noreturn]] void refuse(Op op) const {
    check_failed(__FILE__, __LINE__, "the op is among the backend's capabilities",
                 str("the ", capabilities().backend, " backend has no ", name_of(op)));
  }
};

}  // namespace glint
