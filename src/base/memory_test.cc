#include "base/memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace glint {
namespace {

TEST(Memory, what_is_available_is_some_of_what_there_is) {
  const std::int64_t all = std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  EXPECT_GT(available_memory(), 0);
  EXPECT_LE(available_memory(), all);
}

}  // namespace
}  // namespace glint
