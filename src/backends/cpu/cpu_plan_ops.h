// CpuPlanOps: the memory that CpuOps takes, without its arithmetic.
#pragma once

#include <vector>

#include "backends/cpu/products.h"
#include "ops/plan_ops.h"

namespace glint {
class CpuOps;
}

namespace glint::cpu {

// A member for each Growing of CpuOps, with the most that a call, or one of fewer rows, asks of it.
class CpuPlanOps final : public PlanOps {
 public:
  CpuPlanOps(Device& device, CpuOps& ops);

  std::int64_t scratch_bytes() const override;
  bool reserve() override;

  void linear(const LinearArgs& args) override;
  void grouped_linear(const GroupedLinearArgs& args) override;
  void per_head(const PerHeadArgs& args) override;
  void select_keys(const SelectKeysArgs& args) override;
  void sparse_mla(const SparseMlaArgs& args) override;
  void dense_ffn(const DenseFfnArgs& args, Arena& scratch) override;
  void moe(const MoeArgs& args, Arena& scratch) override;

 private:
  struct Copies {
    std::int64_t bf16 = 0, f32 = 0;
  };
  // x as a product with a weight of `format` reads it.
  void copy(Copies& to, const Tensor& x, WeightFormat format) const;
  // Rows that threads gather from x for themselves.
  void gather(const Tensor& x, std::int64_t most, WeightFormat format);

  CpuOps& ops_;
  const Products& products_;
  const int num_threads_;
  Copies x_, expert_x_;
  std::vector<Copies> head_x_;
  std::int64_t thread_copy_ = 0, queries_ = 0, scores_ = 0, partials_ = 0, attention_ = 0;
};

}  // namespace glint::cpu
