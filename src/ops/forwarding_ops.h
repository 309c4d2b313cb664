// ForwardingOps: every op runs on another backend. What watches or changes some of them derives
// from it.
#pragma once

#include <memory>

#include "ops/ops.h"

namespace glint {

class ForwardingOps : public Ops {
 public:
  explicit ForwardingOps(std::unique_ptr<Ops> inner) : inner_(std::move(inner)) {}

  Device& device() override { return inner_->device(); }

#define GLINT_OP(Type, name) \
  void name(const Type##Args& args) override { inner_->name(args); }
  GLINT_FOR_EACH_OP(GLINT_OP)
#undef GLINT_OP

  void attention_in(const AttentionInArgs& args, Arena& scratch) override {
    inner_->attention_in(args, scratch);
  }
  void attend(const AttendArgs& args, Arena& scratch) override { inner_->attend(args, scratch); }
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
