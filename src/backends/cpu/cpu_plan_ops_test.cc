#include "backends/cpu/cpu_plan_ops.h"

#include <gtest/gtest.h>

#include <numeric>

#include "backends/cpu/cpu_ops.h"
#include "backends/cpu/testing.h"
#include "base/thread_pool.h"
#include "tensor/null_device.h"

namespace glint::cpu {
namespace {

constexpr std::int64_t kHeads = 3, kLatent = 96, kRope = 32, kKeys = 256;

// A product with rows of K numbers, and attention, for T rows.
struct Calls {
  Calls(DType dtype, std::int64_t T, std::int64_t K)
      : weight(WeightFormat::kBF16, 40, K, 1),
        x(dtype, {T, K}, 2),
        out(dtype, {T, 40}, 3),
        q(dtype, {T, kHeads, kLatent}, 4),
        q_rope(dtype, {T, kHeads, kRope}, 5),
        attended(dtype, {T, kHeads, kLatent}, 6),
        keys(dtype, {kKeys, kLatent + kRope}, 7),
        slots(static_cast<std::size_t>(T * kKeys)) {
    for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<std::int32_t>(i % kKeys);
  }

  void run(Ops& ops) {
    ops.linear({.x = x.view, .weight = weight.view, .out = out.view});
    const bool is_f32 = x.view.dtype == DType::kF32;
    ops.sparse_mla({.q_latent = q.view,
                    .q_rope = q_rope.view,
                    .kv = {.data = keys.view.data,
                           .format = is_f32 ? LatentFormat::kF32 : LatentFormat::kBF16,
                           .num_slots = kKeys,
                           .latent_dim = static_cast<int>(kLatent),
                           .rope_dim = static_cast<int>(kRope)},
                    .indices = Tensor(slots.data(), DType::kI32, {q.view.dim(0), kKeys}),
                    .softmax_scale = 0.1f,
                    .out = attended.view});
  }

  RandomWeight weight;
  RandomTensor x, out, q, q_rope, attended, keys;
  std::vector<std::int32_t> slots;
};

class CpuPlanOpsTest : public IsaTest {};

// Rows that must be copied, and rows that need not, on one thread, which all work comes to.
TEST_P(CpuPlanOpsTest, plans_the_memory_that_ops_hold) {
  ThreadPool pool(1);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const std::int64_t T : {1, 37, 600}) {
      CpuOps ops(GetParam(), pool), reserved(GetParam(), pool);
      NullDevice device;
      const auto plan = reserved.make_plan_ops(device);
      EXPECT_EQ(plan->scratch_bytes(), ops.scratch_bytes());
      Calls calls(dtype, T, 200);
      calls.run(ops);
      calls.run(*plan);
      EXPECT_GE(plan->scratch_bytes(), ops.scratch_bytes()) << T;
      EXPECT_TRUE(plan->reserve());
      EXPECT_EQ(reserved.scratch_bytes(), plan->scratch_bytes()) << T;
    }
  }
}

// Whole tiles of rows are read where they are, and many rows keep all threads busy by themselves;
// fewer need memory for it.
TEST_P(CpuPlanOpsTest, memory_for_many_rows_is_enough_for_fewer) {
  ThreadPool pool(4);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    CpuOps ops(GetParam(), pool);
    NullDevice device;
    const auto plan = ops.make_plan_ops(device);
    Calls(dtype, 64, 256).run(*plan);
    ASSERT_TRUE(plan->reserve());
    const std::int64_t reserved = ops.scratch_bytes();
    for (const std::int64_t T : {64, 63, 7, 1}) {
      Calls(dtype, T, 256).run(ops);
      EXPECT_EQ(ops.scratch_bytes(), reserved) << T;
    }
  }
}

// The last tokens of one sequence, planned as those of as many sequences.
TEST_P(CpuPlanOpsTest, scores_have_room_if_all_tokens_are_of_one_sequence) {
  constexpr std::int64_t T = 16, kSeen = 4096, kIndexHeads = 32, kDim = 128, kSelected = 64;
  ThreadPool pool(2);
  CpuOps ops(GetParam(), pool);
  NullDevice device;
  const auto plan = ops.make_plan_ops(device);
  const RandomTensor q(DType::kF32, {T, kIndexHeads, kDim}, 1),
      weights(DType::kF32, {T, kIndexHeads}, 2);
  std::vector<float> keys(kSeen * kDim);
  std::vector<std::int32_t> pages(kSeen / kPageSize), positions(T), sequence(T), out(T * kSelected);
  std::iota(pages.begin(), pages.end(), 0);
  std::iota(positions.begin(), positions.end(), kSeen - T);
  const auto ints = [](std::vector<std::int32_t>& of, std::int64_t cols) {
    return Tensor(of.data(), DType::kI32, {static_cast<std::int64_t>(of.size()) / cols, cols});
  };
  const SelectKeysArgs args = {.q = q.view,
                               .weights = weights.view,
                               .batch = {.positions = Tensor(positions.data(), DType::kI32, {T}),
                                         .seqs = Tensor(sequence.data(), DType::kI32, {T}),
                                         .page_table = ints(pages, kSeen / kPageSize)},
                               .cache = {.data = reinterpret_cast<std::byte*>(keys.data()),
                                         .format = IndexFormat::kF32,
                                         .num_slots = kSeen,
                                         .dim = kDim},
                               .out = ints(out, kSelected)};
  plan->reset({.visible = kSeen, .sequences = T, .longest = kSeen});
  plan->select_keys(args);
  ASSERT_TRUE(plan->reserve());
  const std::int64_t reserved = ops.scratch_bytes();
  ops.select_keys(args);
  EXPECT_EQ(ops.scratch_bytes(), reserved);
}

INSTANTIATE_TEST_SUITE_P(Isas, CpuPlanOpsTest, testing::ValuesIn(kAllIsas), isa_name);

}  // namespace
}  // namespace glint::cpu
