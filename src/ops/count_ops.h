// CountOps: runs on another backend and adds up what the blocks had to move and compute. For
// rooflines: the benchmark divides these bytes by the time that the same steps took.
#pragma once

#include <memory>

#include "ops/ops.h"

namespace glint {

// Counts the least traffic of a step: each weight that the batch needs once (routed experts that no
// token chose are not read), and for each token the index keys it scores and the latents it attends
// to. Activations are not counted. Only the blocks count; host devices only, because costs depend
// on positions and on the experts chosen.
class CountOps final : public Ops {
 public:
  explicit CountOps(std::unique_ptr<Ops> inner) : inner_(std::move(inner)) {}

  // Since the last reset().
  const OpCost& total() const { return total_; }
  void reset() { total_ = {}; }

  Device& device() override { return inner_->device(); }
  Capabilities capabilities() const override;
  ThreadPool* host_threads() override { return inner_->host_threads(); }
  std::int64_t packed_bytes(const Weight& weight) const override {
    return inner_->packed_bytes(weight);
  }
  Weight packed(const Weight& weight, std::byte* to) const override {
    return inner_->packed(weight, to);
  }
  void pack(std::span<const PackedPair> pairs) override { inner_->pack(pairs); }

  void embed(const EmbedArgs& args) override { inner_->embed(args); }
  void gather_rows(const GatherRowsArgs& args) override { inner_->gather_rows(args); }
  void add(const AddArgs& args) override { inner_->add(args); }
  void silu_mul(const SiluMulArgs& args) override { inner_->silu_mul(args); }
  void rms_norm(const RmsNormArgs& args) override { inner_->rms_norm(args); }
  void layer_norm(const LayerNormArgs& args) override { inner_->layer_norm(args); }
  void rope(const RopeArgs& args) override { inner_->rope(args); }
  void linear(const LinearArgs& args) override { inner_->linear(args); }
  void grouped_linear(const GroupedLinearArgs& args) override { inner_->grouped_linear(args); }
  void per_head(const PerHeadArgs& args) override { inner_->per_head(args); }
  void write_latent(const WriteLatentArgs& args) override { inner_->write_latent(args); }
  void write_index(const WriteIndexArgs& args) override { inner_->write_index(args); }
  void select_keys(const SelectKeysArgs& args) override { inner_->select_keys(args); }
  void sparse_mla(const SparseMlaArgs& args) override { inner_->sparse_mla(args); }
  void route(const RouteArgs& args) override { inner_->route(args); }
  void permute(const PermuteArgs& args) override { inner_->permute(args); }
  void combine(const CombineArgs& args) override { inner_->combine(args); }

  void attention_in(const AttentionInArgs& args, Arena& scratch) override;
  void select_and_attend(const SelectAndAttendArgs& args, Arena& scratch) override;
  void attention_out(const AttentionOutArgs& args, Arena& scratch) override;
  void dense_ffn(const DenseFfnArgs& args, Arena& scratch) override;
  void moe(const MoeArgs& args, Arena& scratch) override;
  void head(const HeadArgs& args, Arena& scratch) override;

 private:
  // `rows` rows through `weight`.
  void count(const Weight& weight, std::int64_t rows);

  std::unique_ptr<Ops> inner_;
  OpCost total_;
};

}  // namespace glint
