// LateOps: a backend of the host as if its device were none: ops run on a LateDevice, when somebody
// waits. A model that runs on it reads no device memory from the host, and relies on no op's having
// run when its call returns.
#pragma once

#include <memory>

#include "ops/capabilities.h"
#include "ops/ops.h"
#include "tensor/testing/late_device.h"

namespace glint {

// Blocks are compositions: a block's scratch memory must be taken in the order of the calls.
class LateOps final : public Ops {
 public:
  explicit LateOps(std::unique_ptr<Ops> inner) : inner_(std::move(inner)) {}

  Device& device() override { return device_; }
  Capabilities capabilities() const override { return inner_->capabilities(); }

#define GLINT_OP(Type, name)                             \
  void name(const Type##Args& args) override {           \
    check(args);                                         \
    device_.later([this, args] { inner_->name(args); }); \
  }
  GLINT_FOR_EACH_OP(GLINT_OP)
#undef GLINT_OP

 private:
  const std::unique_ptr<Ops> inner_;
  LateDevice device_;
};

}  // namespace glint
