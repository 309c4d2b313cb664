// Shared by the cases of backward passes.
#pragma once

#include "ops/backward.h"
#include "ops/conformance/cases.h"
#include "ops/plan_gradients.h"
#include "ops/plan_ops.h"
#include "tensor/null_device.h"

namespace glint::conformance {

// The call of one backward pass of the workspace's backend, which takes no more memory than its
// plan.
template <class Args>
Call back_call(Workspace& ws, void (Gradients::*pass)(const Args&), const Args& args,
               const OpCost& cost) {
  const std::shared_ptr<Gradients> gradients = ws.ops().make_gradients();
  NullDevice device(&ws.ops().device());
  const std::unique_ptr<PlanOps> ops = ws.ops().make_plan_ops(device);
  const std::unique_ptr<PlanGradients> plan = gradients->make_plan(*ops);
  (plan.get()->*pass)(args);
  const std::int64_t planned = plan->scratch_bytes();
  const auto run = [=] {
    (gradients.get()->*pass)(args);
    GLINT_CHECK(gradients->scratch_bytes() <= planned, "a backward pass takes what is planned");
  };
  return {.run = run, .cost = cost};
}

// A gradient, one row a token, that holds something before.
inline Tensor gradient(Workspace& ws, const char* name, Dims dims, Pad pad = {}) {
  return ws.updated(name, ws.input(DType::kF32, dims, pad));
}
// One of all tokens together.
inline Tensor whole_gradient(Workspace& ws, const char* name, Dims dims) {
  return ws.whole_updated(name, ws.input(DType::kF32, dims));
}

inline Capabilities back_needs(DType dtype) { return {.activations = {dtype}, .gradients = true}; }

}  // namespace glint::conformance
