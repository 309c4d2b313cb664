// TapOps: runs on another backend and shows what enters each linear layer. For calibration.
#pragma once

#include <functional>

#include "ops/forwarding_ops.h"

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
class TapOps final : public ForwardingOps {
 public:
  using ForwardingOps::ForwardingOps;

  void set_taps(InputTaps taps) { taps_ = std::move(taps); }

  void linear(const LinearArgs& args) override;
  void grouped_linear(const GroupedLinearArgs& args) override;
  void write_latent(const WriteLatentArgs& args) override;

  void attention_in(const AttentionInArgs& args, Arena& scratch) override;
  void attention_out(const AttentionOutArgs& args, Arena& scratch) override {
    Ops::attention_out(args, scratch);
  }
  void dense_ffn(const DenseFfnArgs& args, Arena& scratch) override {
    Ops::dense_ffn(args, scratch);
  }
  void moe(const MoeArgs& args, Arena& scratch) override { Ops::moe(args, scratch); }
  void moe_route(const MoeRouteArgs& args, Arena& scratch) override {
    Ops::moe_route(args, scratch);
  }
  void moe_experts(const MoeExpertsArgs& args, Arena& scratch) override {
    Ops::moe_experts(args, scratch);
  }
  void moe_combine(const MoeCombineArgs& args, Arena& scratch) override {
    Ops::moe_combine(args, scratch);
  }

 private:
  InputTaps taps_;
  const AttentionWeights* attention_ = nullptr;  // of the attention_in that runs
};

}  // namespace glint
