#include "ops/testing/unsupported_ops.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

class NothingOps : public UnsupportedOps {
 public:
  Device& device() override { return *device_; }
  Capabilities capabilities() const override { return {.backend = "empty"}; }

 private:
  std::unique_ptr<Device> device_ = make_host_device();
};

TEST(UnsupportedOpsDeathTest, a_primitive_aborts_naming_backend_and_op) {
  NothingOps ops;
  EXPECT_DEATH(ops.rope({}), "the empty backend has no rope");
  EXPECT_DEATH(ops.combine({}), "the empty backend has no combine");
}

TEST(UnsupportedOps, capabilities_refuse_a_model_that_needs_what_is_missing) {
  const NothingOps ops;
  const Status status =
      check_capabilities(ops.capabilities(), {.backend = "", .ops = {Op::kLinear}});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(status.error().message,
            "the empty backend has no linear, which this model needs; run it with --backend cpu");
}

}  // namespace
}  // namespace glint
