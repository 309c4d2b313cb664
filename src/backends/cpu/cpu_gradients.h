// CpuGradients: the backward passes on the host's cores.
//
// Derives from ReferenceGradients and overrides what is hot. Products are those of the forward pass
// with operands turned around. Bits do not depend on the number of threads: sums over tokens are
// taken in blocks of a fixed size, and these are added up in order.
#pragma once

#include <vector>

#include "backends/cpu/cpu_ops.h"
#include "backends/reference/reference_gradients.h"
#include "ops/plan_gradients.h"

namespace glint {

class CpuGradients : public ReferenceGradients {
 public:
  // `ops` and `pool`, theirs, outlive it.
  CpuGradients(CpuOps& ops, const cpu::Kernels& kernels, ThreadPool& pool)
      : ops_(ops), kernels_(kernels), pool_(pool), scratch_(ops.device()) {}

  void add_back(const AddBackArgs& args) override;
  void silu_mul_back(const SiluMulBackArgs& args) override;
  void rms_norm_back(const RmsNormBackArgs& args) override;
  void linear_back(const LinearBackArgs& args) override;
  void grouped_linear_back(const GroupedLinearBackArgs& args) override;
  void per_head_back(const PerHeadBackArgs& args) override;
  void sparse_mla_back(const SparseMlaBackArgs& args) override;
  void combine_back(const CombineBackArgs& args) override;
  void log_probs(const LogProbsArgs& args) override;
  void cross_entropy(const CrossEntropyArgs& args) override;

  std::int64_t scratch_bytes() const override {
    return static_cast<std::int64_t>(scratch_.high_water());
  }
  std::unique_ptr<PlanGradients> make_plan(Ops& ops) override;

 private:
  class Plan;

  // Row t of `x` as f32: where it is, or a copy in `copy`.
  const float* floats_of_row(const Tensor& x, std::int64_t t, std::vector<float>& copy) const;

  // Input of turned(): row r is x[places[r]], or x[r] without places.
  struct Rows {
    Tensor x = {};
    const std::int32_t* places = nullptr;
    std::int64_t count = 0;
  };
  // The transpose of `rows`, [columns, count], dense, of type `to`.
  Tensor turned(const Rows& rows, DType to);
  void turn(const Rows& rows, const Tensor& to);
  // Turned matrices as a stack; those of `wanted` only.
  template <class Wanted>
  WeightStack turned(const WeightStack& weights, Wanted wanted);
  Tensor cast(const Tensor& x, DType to);
  // dweight += g^T x
  void add_weight_gradient(const Rows& g, const Rows& x, DType type, const Tensor& dweight);
  void set_zero(const Tensor& rows);

  CpuOps& ops_;
  const cpu::Kernels& kernels_;
  ThreadPool& pool_;
  Arena scratch_;
  // Parts of the weight gradient of rms_norm_back: [blocks of tokens, D] f32.
  static Tensor take_parts(const RmsNormBackArgs& args, Arena& scratch);
  struct AttentionBlock;  // of sparse_mla_back
  static std::vector<AttentionBlock> take_blocks(const SparseMlaArgs& op, ThreadPool& pool,
                                                 Arena& scratch);
  static void plan_blocks(const SparseMlaArgs& op, ThreadPool& pool, Arena& scratch);
};

}  // namespace glint
