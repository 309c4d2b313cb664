// ForwardingOps: every op runs on another backend. What watches or changes some of them derives
// from it.
#pragma once

#include <memory>

#include "ops/backward.h"
#include "ops/capabilities.h"
#include "ops/ops.h"
#include "ops/plan_ops.h"

namespace glint {

class ForwardingOps : public Ops {
 public:
  explicit ForwardingOps(std::unique_ptr<Ops> inner) : inner_(std::move(inner)) {}

  Device& device() override { return inner_->device(); }
  Capabilities capabilities() const override { return inner_->capabilities(); }
  Status supports(const ModelDims& dims) const override { return inner_->supports(dims); }
  ThreadPool* host_threads() override { return inner_->host_threads(); }
  std::int64_t packed_bytes(const Weight& weight) override { return inner_->packed_bytes(weight); }
  Weight packed(const Weight& weight, std::byte* to) override { return inner_->packed(weight, to); }
  void pack(std::span<const PackedPair> pairs, ThreadPool& threads) override {
    inner_->pack(pairs, threads);
  }
  void place_attention(AttentionWeights& weights, WeightPlan& plan) override {
    inner_->place_attention(weights, plan);
  }
  void place_ffn(FfnWeights& weights, WeightPlan& plan) override {
    inner_->place_ffn(weights, plan);
  }
  void place_moe(MoeWeights& weights, WeightPlan& plan) override {
    inner_->place_moe(weights, plan);
  }

#define GLINT_OP(Type, name) \
  void name(const Type##Args& args) override { inner_->name(args); }
  GLINT_FOR_EACH_OP(GLINT_OP)
#undef GLINT_OP

  std::unique_ptr<Gradients> make_gradients() override { return inner_->make_gradients(); }

  std::unique_ptr<PlanOps> make_plan_ops(Device& device) override {
    return inner_->make_plan_ops(device);
  }
  std::int64_t scratch_bytes() const override { return inner_->scratch_bytes(); }

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
  void moe_route(const MoeRouteArgs& args, Arena& scratch) override {
    inner_->moe_route(args, scratch);
  }
  void moe_experts(const MoeExpertsArgs& args, Arena& scratch) override {
    inner_->moe_experts(args, scratch);
  }
  void moe_combine(const MoeCombineArgs& args, Arena& scratch) override {
    inner_->moe_combine(args, scratch);
  }
  void head(const HeadArgs& args, Arena& scratch) override { inner_->head(args, scratch); }

 protected:
  const std::unique_ptr<Ops> inner_;
};

}  // namespace glint
