#include "cli/train_layout.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

TEST(CommonBackend, is_what_every_machine_can_or_an_error_that_names_two_ranks) {
  EXPECT_EQ(common_backend({"cuda", "cuda"}).value(), "cuda");
  EXPECT_EQ(common_backend({"cpu"}).value(), "cpu");
  const auto mixed = common_backend({"cuda", "cuda", "cpu"});
  ASSERT_FALSE(mixed.ok());
  EXPECT_NE(mixed.error().message.find("machine of rank 2 has no fit GPU"), std::string::npos)
      << mixed.error().message;
}

}  // namespace
}  // namespace glint
