#include "ops/plan_ops.h"

#include "ops/plan_gradients.h"

namespace glint {
namespace {

// Costs by arguments alone, or by what the batch is assumed to hold where they depend on it.
template <class Args>
OpCost cost_under(const Args& args, const Assume&) {
  return cost(args);
}
OpCost cost_under(const GroupedLinearArgs& args, const Assume& assume) {
  return cost(args, assume);
}
OpCost cost_under(const SelectKeysArgs& args, const Assume& assume) { return cost(args, assume); }
OpCost cost_under(const SparseMlaArgs& args, const Assume& assume) { return cost(args, assume); }

template <class Args>
PlanOps::Call call_of(Op op, const Args& args, const Assume& assume) {
  PlanOps::Call call = {.op = op, .cost = cost_under(args, assume)};
  if constexpr (requires { args.weight.format; }) {
    call.weight = args.weight.id, call.format = args.weight.format;
  } else if constexpr (requires { args.weights.format; }) {
    call.weight = args.weights.id, call.format = args.weights.format;
  }
  return call;
}

}  // namespace

#define GLINT_OP(Type, name)                               \
  void PlanOps::name(const Type##Args& args) {             \
    check(args);                                           \
    calls_.push_back(call_of(Op::k##Type, args, assume_)); \
  }
GLINT_FOR_EACH_OP(GLINT_OP)
#undef GLINT_OP

void PlanOps::note(const GroupedLinearArgs& args) {
  calls_.push_back(call_of(Op::kGroupedLinear, args, assume_));
}

OpCost PlanOps::total() const {
  OpCost total;
  for (const Call& call : calls_) total += call.cost;
  return total;
}

void PlanOps::reset(const Assume& assume) {
  assume_ = assume;
  calls_.clear();
}

std::unique_ptr<PlanOps> Backend::make_plan_ops(Device& device) {
  return std::make_unique<PlanOps>(device);
}

std::unique_ptr<PlanGradients> Gradients::make_plan(Ops&) {
  return std::make_unique<PlanGradients>();
}

}  // namespace glint
