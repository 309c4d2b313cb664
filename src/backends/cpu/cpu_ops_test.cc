#include "backends/cpu/cpu_ops.h"

#include <gtest/gtest.h>

#include "ops/conformance/conformance.h"

namespace glint {
namespace {

class CpuOpsTest : public testing::TestWithParam<CpuIsa> {
 protected:
  void SetUp() override {
    if (!cpu_has(GetParam())) GTEST_SKIP() << "this CPU has no " << name_of(GetParam());
  }
};

TEST_P(CpuOpsTest, conforms_to_the_reference) {
  ThreadPool pool(2);
  CpuOps ops(GetParam(), pool);
  ReferenceOps oracle;
  int count = 0;
  conformance::run_conformance(ops, oracle, {}, [&](const conformance::CaseResult& result) {
    ++count;
    EXPECT_EQ(result.failure, "") << result.op << ": " << result.name;
  });
  EXPECT_GT(count, 400);
}

TEST(CpuIsa, has_names_that_parse_and_an_error_that_lists_them) {
  for (const CpuIsa isa :
       {CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAvx512Bf16, CpuIsa::kAmx, CpuIsa::kAmxEmulated}) {
    EXPECT_EQ(parse_cpu_isa(name_of(isa)).value(), isa);
  }
  EXPECT_EQ(parse_cpu_isa("sse2").error().message,
            "\"sse2\" is no instruction set; one of avx2, avx512, avx512_bf16, amx, amx_emulated");
  const Result<CpuIsa> best = best_cpu_isa();
  EXPECT_TRUE(!best.ok() || cpu_has(best.value()));
}

INSTANTIATE_TEST_SUITE_P(Isa, CpuOpsTest,
                         testing::Values(CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAvx512Bf16,
                                         CpuIsa::kAmx, CpuIsa::kAmxEmulated),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace glint
