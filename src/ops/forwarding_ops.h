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

#define GLINT_BLOCK(Type, name) \
  void name(const Type##Args& args, Arena& scratch) override { inner_->name(args, scratch); }
  GLINT_FOR_EACH_BLOCK(GLINT_BLOCK)
  GLINT_FOR_EACH_MOE_PART(GLINT_BLOCK)
#undef GLINT_BLOCK

 protected:
  const std::unique_ptr<Ops> inner_;
};

// A fused block hides its primitives: for those who look at these, blocks run as their compositions
// over the primitives of the other backend.
class ComposingOps : public ForwardingOps {
 public:
  using ForwardingOps::ForwardingOps;

#define GLINT_BLOCK(Type, name)                                                 \
  void name(const Type##Args& args, Arena& scratch) override {                  \
    composes() ? Ops::name(args, scratch) : ForwardingOps::name(args, scratch); \
  }
  GLINT_FOR_EACH_BLOCK(GLINT_BLOCK)
  GLINT_FOR_EACH_MOE_PART(GLINT_BLOCK)
#undef GLINT_BLOCK

 protected:
  // Whether blocks do now; else they run fused.
  virtual bool composes() const = 0;
};

}  // namespace glint
