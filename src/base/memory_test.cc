#include "base/memory.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

TEST(Memory, some_of_all_is_available) {
  EXPECT_GT(available_memory(), 0);
  EXPECT_LE(available_memory(), total_memory());
}

}  // namespace
}  // namespace glint
