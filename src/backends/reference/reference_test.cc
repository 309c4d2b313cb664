#include <gtest/gtest.h>

#include "backends/reference/reference_ops.h"
#include "ops/conformance/conformance.h"

namespace glint {
namespace {

TEST(Reference, router_toy_of_the_specification) {
  ReferenceOps ops;
  float logits[] = {0.2f, -1, 2, 0.5f}, bias[] = {0, 0.9f, 0, -0.3f}, weights[2];
  std::int32_t ids[2];
  ops.route({.logits = Tensor(logits, DType::kF32, {1, 4}),
             .bias = Tensor(bias, DType::kF32, {4}),
             .routed_scaling_factor = 2.5f,
             .ids = Tensor(ids, DType::kI32, {1, 2}),
             .weights = Tensor(weights, DType::kF32, {1, 2})});
  EXPECT_EQ(ids[0], 1);  // chosen through its bias, but weighted by the plain sigmoid
  EXPECT_EQ(ids[1], 2);
  EXPECT_NEAR(weights[0], 0.584788f, 1e-6);
  EXPECT_NEAR(weights[1], 1.915212f, 1e-6);
}

TEST(Reference, conforms_to_itself_whatever_the_batch) {
  ReferenceOps ops, oracle;
  int count = 0;
  conformance::run_conformance(ops, oracle, {}, [&](const conformance::CaseResult& result) {
    ++count;
    EXPECT_EQ(result.failure, "") << result.op << ": " << result.name;
  });
  EXPECT_GT(count, 400);
}

}  // namespace
}  // namespace glint
