// PlanGradients: backward passes without arithmetic, as PlanOps are ops without it.
#pragma once

#include "ops/backward.h"

namespace glint {

// Base of planned gradients of a backend that takes memory for them (Gradients::make_plan).
class PlanGradients : public Gradients {
 public:
  // Makes those that are planned hold as much from now on. False: there is no such memory.
  virtual bool reserve() { return true; }

#define GLINT_OP(Type, name) \
  void name(const Type##Args& args) override { check(args); }
  GLINT_FOR_EACH_BACKWARD(GLINT_OP)
#undef GLINT_OP
};

}  // namespace glint
