// UnsupportedOps: every primitive aborts, naming the op. The base of test doubles, and of a backend
// that is growing: its capabilities() name what it overrides, so that the loader refuses a model
// that needs more, and an abort here is a bug.
#pragma once

#include "base/str.h"
#include "ops/backend.h"
#include "ops/capabilities.h"

namespace glint {

class UnsupportedOps : public Backend {
 public:
#define GLINT_OP(Type, name) \
  void name(const Type##Args&) override { refuse(Op::k##Type); }
  GLINT_FOR_EACH_OP(GLINT_OP)
#undef GLINT_OP

 private:
  [[noreturn]] void refuse(Op op) const {
    check_failed(__FILE__, __LINE__, "the op is among the backend's capabilities",
                 str("the ", capabilities().backend, " backend has no ", name_of(op)));
  }
};

}  // namespace glint
