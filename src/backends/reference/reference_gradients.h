// ReferenceGradients: every backward pass as plain scalar code on the host.
//
// The oracle that other backends are compared with. Sums and functions are in f64 and rounded to
// f32 once, when they are added to a gradient. It checks every index it reads.
//
// One thread; not thread-safe.
#pragma once

#include "ops/backward.h"

namespace glint {

class ReferenceGradients : public Gradients {
 public:
#define GLINT_OP(Type, name) void name(const Type##Args& args) override;
  GLINT_FOR_EACH_BACKWARD(GLINT_OP)
#undef GLINT_OP
};

}  // namespace glint
