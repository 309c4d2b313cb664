// ReferenceOps: every primitive as plain scalar code on the host, one source per contract in ops/.
//
// The oracle that other backends are compared with, and the base that CpuOps overrides where it is
// hot. Sums, norms and exponentials are in f64 and rounded to f32 once, then to the output's type,
// so that its own error is far below any tolerance; what a contract calls an f32 value (a router's
// score) is one here too. It checks every index it reads, which fast backends do not.
//
// One thread; not thread-safe.
#pragma once

#include <memory>

#include "ops/backend.h"

namespace glint {

class ReferenceOps : public Backend {
 public:
  Device& device() override { return *device_; }
  Capabilities capabilities() const override;

#define GLINT_OP(Type, name) void name(const Type##Args& args) override;
  GLINT_FOR_EACH_OP(GLINT_OP)
#undef GLINT_OP

  std::unique_ptr<Gradients> make_gradients() override;

 private:
  const std::unique_ptr<Device> device_ = make_host_device();
};

}  // namespace glint
