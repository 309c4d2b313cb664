#include "tensor/null_device.h"

#include <gtest/gtest.h>

#include "tensor/arena.h"

namespace glint {
namespace {

TEST(NullDevice, counts_and_gives_out_no_address_twice) {
  NullDevice device;
  const Buffer a = device.allocate(1000), b = device.allocate(std::size_t{1} << 45);
  EXPECT_NE(a.data(), nullptr);
  EXPECT_EQ(b.data() - a.data(), 1024);
  EXPECT_EQ(a.bytes(), 1000u);
  EXPECT_EQ(device.allocated(), (std::size_t{1} << 45) + 1024);
  device.copy_in(b.data(), nullptr, 1 << 20);  // touches nothing
  EXPECT_NE(device.allocate(0).data(), nullptr);
}

TEST(NullDevice, shows_what_an_arena_would_take) {
  NullDevice device;
  Arena arena(device);
  {
    const Arena::Scope scope(arena);
    arena.take(DType::kF32, {1 << 20, 1 << 10});
  }
  arena.take(DType::kBF16, {3});
  EXPECT_EQ(arena.high_water(), std::size_t{1} << 32);
}

}  // namespace
}  // namespace glint
