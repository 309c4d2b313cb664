#include "backends/cuda/cuda_ops.h"

#include <gtest/gtest.h>

#include <set>

#include "backends/cuda/testing/device_checks.h"
#include "backends/reference/reference_ops.h"
#include "ops/conformance/conformance.h"

namespace glint {
namespace {

TEST(CudaOps, an_impossible_device_number_is_an_error) {
  const auto ops = make_cuda_ops(-1);
  ASSERT_FALSE(ops.ok());
  EXPECT_EQ(ops.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(ops.error().message.find("no CUDA device"), 0u) << ops.error().message;
}

TEST(CudaOps, conforms) {
  const auto ops = make_cuda_ops(0);
  if (!ops.ok()) GTEST_SKIP() << ops.error().message;
  ReferenceOps reference;
  std::set<std::string> seen;
  conformance::run_conformance(*ops.value(), reference, {},
                               [&](const conformance::CaseResult& result) {
                                 seen.insert(result.op);
                                 EXPECT_EQ(result.failure, "") << result.op << ": " << result.name;
                               });
  const std::vector<std::string> all = conformance::op_names();
  EXPECT_EQ(seen, std::set<std::string>(all.begin(), all.end()));
}

class OnDevice : public testing::TestWithParam<cuda::DeviceCheck> {};

TEST_P(OnDevice, holds) {
  const auto ops = make_cuda_ops(0);
  if (!ops.ok()) GTEST_SKIP() << ops.error().message;
  EXPECT_EQ(GetParam().run(*ops.value()), "");
}

INSTANTIATE_TEST_SUITE_P(CudaOps, OnDevice, testing::ValuesIn(cuda::device_checks()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace glint
