#include "base/base64.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

TEST(Base64, is_rfc_4648) {
  for (const auto& [bytes, text] : {std::pair{"", ""},
                                    {"f", "Zg=="},
                                    {"fo", "Zm8="},
                                    {"foo", "Zm9v"},
                                    {"foobar", "Zm9vYmFy"},
                                    {"\xff\xfe", "//4="}}) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
}

TEST(Base64, only_what_is_written_is_read) {
  for (const char* const text : {"Zg", "Zg=", "Zh==", "Zm9v=", "Zm 9v", "Zg==Zg==", "=", "Z"}) {
    EXPECT_EQ(from_base64(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace glint
