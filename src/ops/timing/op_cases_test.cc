#include "ops/timing/op_cases.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ops/plan_ops.h"
#include "tensor/null_device.h"

namespace glint {
namespace {

// The names of the cases that do not fit; the others are called, and check their arguments.
std::vector<std::string> left_out(const OpSizes& sizes, WeightFormat format) {
  NullDevice device;
  PlanOps ops(device);
  const Result<OpMemory> memory = OpMemory::make(device);
  std::vector<Buffer> keep;
  std::vector<std::string> names;
  for (const OpCase& op : op_cases(ops, memory.value(), sizes, format, keep)) {
    if (op.run) {
      op.run(op.sets - 1);
    } else {
      names.push_back(op.name);
    }
  }
  return names;
}

TEST(OpCases, fit_or_say_that_they_do_not) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(left_out({.ranks = 8, .batch = 512, .context = 2304}, WeightFormat::kBF16), Names());
  EXPECT_EQ(left_out({.ranks = 8, .batch = 4096, .context = 2304}, WeightFormat::kFp8Block),
            Names());
  EXPECT_EQ(left_out({.ranks = 8, .batch = 2048, .context = 2304}, WeightFormat::kBF16),
            Names{"sparse_mla, bf16 cache"});
}

}  // namespace
}  // namespace glint
