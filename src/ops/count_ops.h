// CountOps: runs on another backend and adds up what the blocks had to move and compute. For
// rooflines: the benchmark divides these bytes by the time that the same steps took.
#pragma once

#include <span>

#include "ops/forwarding_ops.h"

namespace glint {

// Counts the least traffic of a step: each weight that the batch needs once (routed experts that no
// token chose are not read), and for each token the index keys it scores and the latents it attends
// to. Activations are not counted. Only the model's own calls count, blocks or products; host
// devices only, because costs depend on positions and on the experts chosen.
class CountOps final : public ForwardingOps {
 public:
  using ForwardingOps::ForwardingOps;

  // Since the last reset().
  const OpCost& total() const { return total_; }
  void reset() { total_ = {}; }

  void attention_in(const AttentionInArgs& args, Arena& scratch) override;
  void select_keys(const SelectKeysArgs& args) override;
  void attend(const AttendArgs& args, Arena& scratch) override;
  void attention_out(const AttentionOutArgs& args, Arena& scratch) override;
  void dense_ffn(const DenseFfnArgs& args, Arena& scratch) override;
  void moe(const MoeArgs& args, Arena& scratch) override;
  void moe_route(const MoeRouteArgs& args, Arena& scratch) override;
  void moe_experts(const MoeExpertsArgs& args, Arena& scratch) override;
  void moe_combine(const MoeCombineArgs& args, Arena& scratch) override;
  void head(const HeadArgs& args, Arena& scratch) override;
  void linear(const LinearArgs& args) override;
  void grouped_linear(const GroupedLinearArgs& args) override;

 private:
  // `rows` rows through `weight`.
  void count(const Weight& weight, std::int64_t rows);
  void count(const FfnWeights& weights, std::int64_t rows);
  // Through each weight of the stack, the rows between its offset and the next.
  void count(const WeightStack& weights, std::span<const std::int32_t> offsets);

  OpCost total_;
};

}  // namespace glint
