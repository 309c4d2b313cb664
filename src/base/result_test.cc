#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace glint {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return invalid("odd");
  return n / 2;
}

Result<int> quarter(int n) {
  GLINT_TRY(const int once, half(n));
  GLINT_TRY(const int twice, half(once));
  return twice;
}

Status check_even(int n) {
  GLINT_TRY_STATUS([&]() -> Status {
    if (n % 2 != 0) return invalid("odd");
    return Ok{};
  }());
  return Ok{};
}

TEST(Result, try_unwraps_or_returns_the_error) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(6).error().message, "odd");
  EXPECT_TRUE(check_even(2).ok());
  EXPECT_EQ(check_even(1).error().code, ErrorCode::kInvalidArgument);
}

TEST(Result, errors_gather_what_was_being_done_outermost_first) {
  EXPECT_EQ(invalid("bad magic").in("shard 3").in("loading m").message,
            "loading m: shard 3: bad magic");
}

TEST(Result, holds_what_can_only_be_moved) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(3);
  const std::unique_ptr<int> value = std::move(result).value();
  EXPECT_EQ(*value, 3);
}

TEST(ResultDeathTest, the_value_of_an_error_aborts_with_its_message) {
  EXPECT_DEATH(half(1).value(), "odd");
}

TEST(CheckDeathTest, a_failed_check_names_place_condition_and_message) {
  EXPECT_DEATH(GLINT_CHECK(1 > 2, "numbers"),
               "result_test.cc:[0-9]+: check failed: 1 > 2: numbers");
}

}  // namespace
}  // namespace glint
