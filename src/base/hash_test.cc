#include "base/hash.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

// The vectors of its authors.
TEST(Hash, fnv1a_is_as_published) {
  EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325u);
  EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8u);
}

TEST(Hash, hex_has_all_digits) { EXPECT_EQ(hex_of(0xabc), "0000000000000abc"); }

}  // namespace
}  // namespace glint
