// CudaPlanOps: the memory that CudaOps takes, without its arithmetic. A launch of a block costs
// what its products cost; all between them is not counted.
#pragma once

#include "backends/cuda/blocks.h"
#include "ops/plan_ops.h"

namespace glint::cuda {

class CudaPlanOps final : public Blocks<PlanOps> {
 public:
  using Blocks::Blocks;

 private:
  void beside(const std::function<void()>& launches) override { launches(); }
  void fork(std::int64_t) override {}
  void join() override {}
  void launch(const LatentInputsArgs&) override {}
  void launch(const KeyInputsArgs&) override {}
  void launch(const RopePair&) override {}
  void launch(const GateUpArgs& args) override {
    for (const LinearArgs& product : products_of(args)) linear(product);
  }
  void launch(const GroupedGateUpArgs& args) override {
    for (const GroupedLinearArgs& product : products_of(args)) grouped_linear(product);
  }
  void launch(const GroupedDownArgs& args) override { grouped_linear(args.product); }
  void launch(const RouterInputArgs&) override {}
  void launch(const RoutePermuteArgs& args) override { permute(args.permute); }
};

}  // namespace glint::cuda
