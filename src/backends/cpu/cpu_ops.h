// CpuOps: the ops on the host's cores, with kernels chosen once for its instruction set.
//
// Derives from ReferenceOps and overrides what is hot. Every result is independent of the number of
// threads and of how tokens were batched: sums run over k, over cached keys or over experts in an
// order that the shapes fix (kernels.h, attention.cc).
#pragma once

#include <vector>

#include "backends/cpu/isa.h"
#include "backends/cpu/products.h"
#include "backends/reference/reference_ops.h"

namespace glint {

namespace cpu {
class CpuPlanOps;
}

class CpuOps : public ReferenceOps {
 public:
  // The CPU must have `isa` (cpu_has). `pool` must outlive the ops, and runs nothing else
  // meanwhile.
  CpuOps(CpuIsa isa, ThreadPool& pool);

  CpuIsa isa() const { return isa_; }
  Capabilities capabilities() const override;
  ThreadPool* host_threads() override { return &pool_; }
  std::int64_t packed_bytes(const Weight& weight) override;
  Weight packed(const Weight& weight, std::byte* to) override;
  void pack(std::span<const PackedPair> pairs, ThreadPool& threads) override;

  std::unique_ptr<Gradients> make_gradients() override;
  std::unique_ptr<PlanOps> make_plan_ops(Device& device) override;
  std::int64_t scratch_bytes() const override;

  void embed(const EmbedArgs& args) override;
  void gather_rows(const GatherRowsArgs& args) override;
  void silu_mul(const SiluMulArgs& args) override;
  void rms_norm(const RmsNormArgs& args) override;
  void layer_norm(const LayerNormArgs& args) override;
  void rope(const RopeArgs& args) override;
  void linear(const LinearArgs& args) override;
  void grouped_linear(const GroupedLinearArgs& args) override;
  void per_head(const PerHeadArgs& args) override;
  void write_latent(const WriteLatentArgs& args) override;
  void write_index(const WriteIndexArgs& args) override;
  void select_keys(const SelectKeysArgs& args) override;
  void sparse_mla(const SparseMlaArgs& args) override;
  void route(const RouteArgs& args) override;
  void combine(const CombineArgs& args) override;
  void argmax(const ArgmaxArgs& args) override;
  void sample(const SampleArgs& args) override;
  void place_rows(const PlaceRowsArgs& args) override;
  void place_draws(const PlaceDrawsArgs& args) override;
  void accept(const AcceptArgs& args) override;
  void keep_rows(const KeepRowsArgs& args) override;
  void count_tokens(const CountTokensArgs& args) override;
  void token_log_probs(const TokenLogProbsArgs& args) override;

  void attention_in(const AttentionInArgs& args, Arena& scratch) override;
  void dense_ffn(const DenseFfnArgs& args, Arena& scratch) override;
  void moe(const MoeArgs& args, Arena& scratch) override;

 private:
  friend class cpu::CpuPlanOps;

  CpuIsa isa_;
  ThreadPool& pool_;
  cpu::Products products_;
  // Memory of ops in progress; each grows to what the largest call needs.
  cpu::TypedRows::Copies x_, expert_x_;
  std::vector<cpu::TypedRows::Copies> head_x_;
  cpu::Growing queries_, scores_, partials_;
  std::vector<cpu::Growing> attention_;  // one a thread
  std::vector<std::vector<float>> sample_weights_;
};

}  // namespace glint
