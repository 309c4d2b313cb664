// TapOps: runs on another backend and shows what enters each linear layer. For calibration.
#pragma once

#include <functional>
#include <memory>

#include "ops/ops.h"

namespace glint {

// Called before the product runs, from the thread that runs the model. Tensors live on the device.
struct InputTaps {
  std::function<void(const LinearArgs&)> linear = {};
  std::function<void(const GroupedLinearArgs&)> grouped_linear = {};
  // kv_b_proj, whose halves are multiplied from both sides: its input is the latent [T,
  // kv_lora_rank] of a layer with these weights.
  std::function<void(const AttentionWeights&, const Tensor& latent)> latent = {};
};

// A fused block would hide its products, so the blocks that have linears with inputs of their own
// run as their compositions over the primitives of the inner backend; the others stay fused.
class TapOps final : public Ops {
 public:
  explicit TapOps(std::unique_ptr<Ops> inner) : inner_(std::move(inner)) {}

  void set_taps(InputTaps taps) { taps_ = std::move(taps); }

  Device& device() override { return inner_->device(); }
  Capabilities capabilities() const override;
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
  void linear(const LinearArgs& args) override;
  void grouped_linear(const GroupedLinearArgs& args) override;
  void per_head(const PerHeadArgs& args) override { inner_->per_head(args); }
  void write_latent(const WriteLatentArgs& args) override;
  void write_index(const WriteIndexArgs& args) override { inner_->write_index(args); }
  void select_keys(const SelectKeysArgs& args) override { inner_->select_keys(args); }
  void sparse_mla(const SparseMlaArgs& args) override { inner_->sparse_mla(args); }
  void route(const RouteArgs& args) override { inner_->route(args); }
  void permute(const PermuteArgs& args) override { inner_->permute(args); }
  void combine(const CombineArgs& args) override { inner_->combine(args); }

  void attention_in(const AttentionInArgs& args, Arena& scratch) override;
  void select_and_attend(const SelectAndAttendArgs& args, Arena& scratch) override {
    inner_->select_and_attend(args, scratch);
  }
  void head(const HeadArgs& args, Arena& scratch) override { inner_->head(args, scratch); }

 private:
  std::unique_ptr<Ops> inner_;
  InputTaps taps_;
  const AttentionWeights* attention_ = nullptr;  // of the attention_in that runs
};

}  // namespace glint
