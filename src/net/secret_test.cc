#include "net/secret.h"

#include <gtest/gtest.h>

#include <string>

namespace glint {
namespace {

TEST(Secret, equal_texts_and_no_others_are_the_same) {
  const std::string key = "sk-0123456789abcdef";
  EXPECT_TRUE(same_secret(key, key));
  EXPECT_TRUE(same_secret("", ""));
  EXPECT_FALSE(same_secret("", key));
  EXPECT_FALSE(same_secret(key, ""));
  EXPECT_FALSE(same_secret(key + "x", key));
  EXPECT_FALSE(same_secret(std::string_view(key).substr(0, 10), key));
  EXPECT_FALSE(same_secret(key + '\0', key));
  for (std::size_t i = 0; i < key.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string other = key;
      other[i] = static_cast<char>(other[i] ^ (1 << bit));
      EXPECT_FALSE(same_secret(other, key));
    }
  }
}

}  // namespace
}  // namespace glint
