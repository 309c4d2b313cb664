// A build without CUDA.
#include <gtest/gtest.h>

#include "backends/cuda/cuda_ops.h"

namespace glint {
namespace {

TEST(NoCuda, asking_for_a_device_says_that_the_build_has_no_cuda) {
  const auto ops = make_cuda_ops(0);
  ASSERT_FALSE(ops.ok());
  EXPECT_EQ(ops.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(ops.error().message.find("this build has no CUDA"), std::string::npos);
}

}  // namespace
}  // namespace glint
