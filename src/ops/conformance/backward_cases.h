// Shared by the cases of backward passes.
#pragma once

#include "ops/backward.h"
#include "ops/conformance/cases.h"

namespace glint::conformance {

// The call of one backward pass of the workspace's backend.
template <class Args>
Call back_call(Workspace& ws, void (Gradients::*pass)(const Args&), const Args& args,
               const OpCost& cost) {
  const std::shared_ptr<Gradients> gradients = ws.ops().make_gradients();
  return {.run = [=] { (gradients.get()->*pass)(args); }, .cost = cost};
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
