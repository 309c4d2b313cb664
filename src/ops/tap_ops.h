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

// Blocks are compositions, but for those without linears that have inputs of their own.
class TapOps final : public ComposingOps {
 public:
  using ComposingOps::ComposingOps;

  void set_taps(InputTaps taps) { taps_ = std::move(taps); }

  void linear(const LinearArgs& args) override;
  void grouped_linear(const GroupedLinearArgs& args) override;
  void write_latent(const WriteLatentArgs& args) override;

  void attention_in(const AttentionInArgs& args, Arena& scratch) override;
  void attend(const AttendArgs& args, Arena& scratch) override { inner_->attend(args, scratch); }
  void head(const HeadArgs& args, Arena& scratch) override { inner_->head(args, scratch); }

 private:
  bool composes() const override { return true; }

  InputTaps taps_;
  const AttentionWeights* attention_ = nullptr;  // of the attention_in that runs
};

}  // namespace glint
