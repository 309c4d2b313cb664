// ForwardingOps: every op runs on another backend. What watches or changes some of them derives
// from it.
#pragma once

#include <memory>

#include "ops/capabilities.h"
#include "ops/ops.h"

namespace glint {

class ForwardingOps : public Ops {
 public:
  explicit ForwardingOps(std::unique_ptr<Ops> inner) : inner_(std::move(inner)) {}

  Device& device() override { return inner_->device(); }
  Capabilities capabilities() const override { return inner_->capabilities(); }
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

  void attention_in(const AttentionInArgs& args, Arena& scratch) override {
    inner_->attention_in(args, scratch);
  }
  void select_and_attend(const SelectAndAttendArgs& args, Arena& scratch) override {
    inner_->select_and_attend(args, scratch);
  }
  void attention_out(const AttentionOutArgs& args, Arena& scratch) override {
    inner_->attention_out(args, scratch);
  }
  void dense_ffn(const DenseFfnArgs& args, Arena& scratch) override {
    inner_->dense_ffn(args, scratch);
  }
  void moe(const MoeArgs& args, Arena& scratch) override { inner_->moe(args, scratch); }
  void head(const HeadArgs& args, Arena& scratch) override { inner_->head(args, scratch); }

 protected:
  const std::unique_ptr<Ops> inner_;
};

}  // namespace glint
