// DividedOps: the blocks of a rank that has a part of every matrix (tensor parallelism), or that
// cuts its sums in slices as such ranks do. The model's own code does not know of it.
#pragma once

#include "model/glm.h"
#include "ops/forwarding_ops.h"

namespace glint {

// Products whose columns are divided (is_summed) are sums over slices of them. Each slice's part is
// f32; parts are added in the order of comm/tree.h over all slices, those of this rank first, and
// the sum is rounded once. So the bits depend on the number of slices, not on that of ranks. A
// slice of a mixture of experts is that of each chosen expert, weighted and added in the order of
// choices, and the shared experts', unless these are whole (MeshShape::cuts_experts).
class DividedOps final : public ForwardingOps {
 public:
  // For the ranks of `tp`; `weights` may still be empty. All but `inner` outlive it.
  DividedOps(std::unique_ptr<Ops> inner, const ModelPartition& partition, Comm& tp,
             ModelWeights& weights);

  // From a table that has this rank's part of the vocabulary; `out` is f32.
  void embed(const EmbedArgs& args) override;
  // The ranks have the same rows and index keys: each scans them for some rows, where that is worth
  // meeting for.
  void select_keys(const SelectKeysArgs& args) override;
  void attention_out(const AttentionOutArgs& args, Arena& scratch) override;
  void dense_ffn(const DenseFfnArgs& args, Arena& scratch) override;
  void moe(const MoeArgs& args, Arena& scratch) override;

 private:
  // delta = the sum over all slices of what part(slice, out [T, hidden] f32) writes for each of
  // this rank's.
  template <class Part>
  void add_slices(const Tensor& delta, Arena& scratch, Part part);
  // The matrix whose first slice is `first`, of slice `slice`.
  template <class WeightOrStack>
  const WeightOrStack& of_slice(const WeightOrStack& first, int slice) const;
  // out = weight * x, of a slice: `x` has the columns of all of this rank's.
  void multiply(const Tensor& x, const Weight& first, int slice, const Tensor& out);

  const ModelPartition& partition_;
  Comm& tp_;
  ModelWeights& weights_;
};

// Logits [R, V] of what every rank of `tp` has of them: [R, V / tp], in the order of ranks.
Tensor gather_logits(const Model& model, const Tensor& mine, Arena& arena);
// And back: mine = this rank's part of `logits`. Not where it has all.
void own_logits(const Model& model, const Tensor& logits, const Tensor& mine);

}  // namespace glint
