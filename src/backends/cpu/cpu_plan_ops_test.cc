#include "backends/cpu/cpu_plan_ops.h"

#include <gtest/gtest.h>

#include "backends/cpu/cpu_ops.h"
#include "backends/cpu/testing.h"
#include "base/thread_pool.h"
#include "tensor/null_device.h"

namespace glint::cpu {
namespace {

class CpuPlanOpsTest : public IsaTest {};

// Rows that must be copied, and rows that need not, on one thread, which all work comes to.
TEST_P(CpuPlanOpsTest, plans_the_memory_that_ops_hold) {
  ThreadPool pool(1);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const std::int64_t T : {1, 37, 600}) {
      CpuOps ops(GetParam(), pool);
      NullDevice device;
      const auto plan = ops.make_plan_ops(device);
      EXPECT_EQ(plan->scratch_bytes(), ops.scratch_bytes());
      const RandomWeight weight(WeightFormat::kBF16, 40, 200, 1);
      const RandomTensor x(dtype, {T, 200}, 2), out(dtype, {T, 40}, 3);
      const LinearArgs args = {.x = x.view, .weight = weight.view, .out = out.view};
      ops.linear(args);
      plan->linear(args);
      EXPECT_EQ(plan->scratch_bytes(), ops.scratch_bytes()) << T;

      const std::int64_t heads = 3, latent = 96, rope = 32, k = 256;
      const RandomTensor q(dtype, {T, heads, latent}, 4), q_rope(dtype, {T, heads, rope}, 5),
          attended(dtype, {T, heads, latent}, 6), keys(dtype, {k, latent + rope}, 7);
      std::vector<std::int32_t> all(static_cast<std::size_t>(T * k));
      for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int32_t>(i % k);
      const bool is_f32 = dtype == DType::kF32;
      const SparseMlaArgs mla = {.q_latent = q.view,
                                 .q_rope = q_rope.view,
                                 .kv = {.data = keys.view.data,
                                        .format = is_f32 ? LatentFormat::kF32 : LatentFormat::kBF16,
                                        .num_slots = k,
                                        .latent_dim = static_cast<int>(latent),
                                        .rope_dim = static_cast<int>(rope)},
                                 .indices = Tensor(all.data(), DType::kI32, {T, k}),
                                 .softmax_scale = 0.1f,
                                 .out = attended.view};
      ops.sparse_mla(mla);
      plan->sparse_mla(mla);
      EXPECT_EQ(plan->scratch_bytes(), ops.scratch_bytes()) << T;

      CpuOps reserved(GetParam(), pool);
      const auto ahead = reserved.make_plan_ops(device);
      ahead->linear(args);
      ahead->sparse_mla(mla);
      EXPECT_TRUE(ahead->reserve());
      EXPECT_EQ(reserved.scratch_bytes(), ops.scratch_bytes()) << T;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, CpuPlanOpsTest, testing::ValuesIn(kAllIsas), isa_name);

}  // namespace
}  // namespace glint::cpu
