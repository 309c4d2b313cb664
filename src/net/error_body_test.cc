#include "net/error_body.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

TEST(ErrorBody, the_message_is_found) {
  EXPECT_EQ(error_message(R"({"error": {"message": "full", "code": 429}})"), "full");
  EXPECT_EQ(error_message(R"({"message": "full"})"), "full");
  EXPECT_EQ(error_message(R"({"error": "full"})"), R"({"error":"full"})");
  EXPECT_EQ(error_message("[1]"), "[1]");
  EXPECT_EQ(error_message("<html>"), "<html>");
  EXPECT_LT(error_message(std::string(10000, 'x')).size(), 600u);
}

}  // namespace
}  // namespace glint
