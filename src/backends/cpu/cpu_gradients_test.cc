// Tests of the backward passes beyond conformance, which cpu_ops_test.cc runs.
#include "backends/cpu/cpu_gradients.h"

#include <gtest/gtest.h>

#include "base/thread_pool.h"
#include "ops/conformance/conformance.h"

namespace glint {
namespace {

TEST(CpuGradients, bits_do_not_depend_on_the_number_of_threads) {
  ThreadPool one(1), three(3);
  const CpuIsa isa = best_cpu_isa().value();
  CpuOps alone(isa, one), together(isa, three);
  int cases = 0;
  for (const char* op : {"rms_norm_back", "linear_back", "grouped_linear_back", "per_head_back",
                         "sparse_mla_back", "combine_back", "log_probs", "cross_entropy"}) {
    conformance::run_conformance(together, alone, {.op = op}, [&](const auto& result) {
      EXPECT_EQ(result.failure, "") << result.op << ": " << result.name;
      EXPECT_EQ(result.error, 0) << result.op << ": " << result.name;
      ++cases;
    });
  }
  EXPECT_GT(cases, 50);
}

}  // namespace
}  // namespace glint
