// LateOps: a backend of the host as if its device were none: ops run on a LateDevice, when somebody
// waits. A model that runs on it reads no device memory from the host, and relies on no op's having
// run when its call returns.
#pragma once

#include <memory>

#include "ops/backend.h"
#include "ops/backward.h"
#include "ops/capabilities.h"
#include "ops/testing/late_comm.h"
#include "tensor/testing/late_device.h"

namespace glint {

class LateGradients final : public Gradients {
 public:
  // `device` outlives it, and what it was asked for.
  LateGradients(std::unique_ptr<Gradients> inner, LateDevice& device)
      : inner_(std::move(inner)), device_(device) {}

#define GLINT_OP(Type, name)                                      \
  void name(const Type##Args& args) override {                    \
    check(args);                                                  \
    device_.later([inner = inner_, args] { inner->name(args); }); \
  }
  GLINT_FOR_EACH_BACKWARD(GLINT_OP)
#undef GLINT_OP

 private:
  const std::shared_ptr<Gradients> inner_;
  LateDevice& device_;
};

// Blocks are compositions: a block's scratch memory must be taken in the order of the calls.
class LateOps : public Backend {
 public:
  // Groups of ranks: through the host; of devices; or of devices whose calls each wait.
  enum class Groups { kThroughHost, kLate, kThatWait };
  explicit LateOps(std::unique_ptr<Backend> inner, Groups groups = Groups::kThroughHost)
      : inner_(std::move(inner)), groups_(groups) {}

  Device& device() override { return device_; }
  Capabilities capabilities() const override { return inner_->capabilities(); }
  std::unique_ptr<Gradients> make_gradients() override {
    return std::make_unique<LateGradients>(inner_->make_gradients(), device_);
  }
  std::unique_ptr<DeviceComm> make_comm(Comm& host) override {
    if (groups_ == Groups::kThroughHost) return Backend::make_comm(host);
    return std::make_unique<LateComm>(host, device_, groups_ == Groups::kThatWait);
  }

#define GLINT_OP(Type, name)                             \
  void name(const Type##Args& args) override {           \
    check(args);                                         \
    device_.later([this, args] { inner_->name(args); }); \
  }
  GLINT_FOR_EACH_OP(GLINT_OP)
#undef GLINT_OP

 private:
  const std::unique_ptr<Backend> inner_;
  const Groups groups_;
  LateDevice device_;
};

}  // namespace glint
