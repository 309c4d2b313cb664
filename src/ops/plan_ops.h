// PlanOps: ops without arithmetic, for a step that is planned: every call's arguments are checked
// and its cost is noted. On a NullDevice, the model's own code shows the memory that it takes.
#pragma once

#include <vector>

#include "ops/backend.h"
#include "ops/capabilities.h"

namespace glint {

// Blocks are compositions; a backend with blocks of its own derives from this
// (Backend::make_plan_ops).
class PlanOps : public Ops {
 public:
  explicit PlanOps(Device& device) : device_(device) {}

  struct Call {
    Op op = {};
    // The id and format of the product's matrices.
    int weight = -1;
    WeightFormat format = WeightFormat::kF32;
    OpCost cost = {};
  };
  // In order, since the last reset.
  const std::vector<Call>& calls() const { return calls_; }
  OpCost total() const;
  // Starts again, with a batch that holds this.
  void reset(const Assume& assume);

  Device& device() override { return device_; }
  // Memory that the backend would hold for itself, beside arenas.
  virtual std::int64_t scratch_bytes() const { return 0; }
  // Makes it hold as much from now on. False: there is no such memory.
  virtual bool reserve() { return true; }

#define GLINT_OP(Type, name) void name(const Type##Args& args) override;
  GLINT_FOR_EACH_OP(GLINT_OP)
#undef GLINT_OP

 protected:
  const Assume& assume() const { return assume_; }
  // Notes the cost of a product that its block's own code multiplies in another way.
  void note(const GroupedLinearArgs& args);

 private:
  Device& device_;
  Assume assume_;
  std::vector<Call> calls_;
};

}  // namespace glint
