#include "checkpoint/checksum.h"

#include <gtest/gtest.h>

#include <array>

#include "base/thread_pool.h"
#include "checkpoint/memory_source.h"

namespace glint {
namespace {

TEST(Checksum, tells_bytes_names_and_shapes_but_not_order_or_threads) {
  std::array<std::byte, 20> bytes = {};
  StoredTensor a = {.name = "a", .type = StoredType::kU8, .shape = {20}, .bytes = bytes};
  StoredTensor b = {.name = "b", .type = StoredType::kU8, .shape = {4}, .bytes = {&bytes[4], 4}};
  const auto checksum = [](std::vector<StoredTensor> tensors, int threads = 1) {
    ThreadPool pool(threads);
    return checksum_of(MemorySource("memory", std::move(tensors)), pool);
  };
  const std::string first = checksum({a, b});
  EXPECT_EQ(first.size(), 16u);
  EXPECT_EQ(checksum({b, a}, 3), first);
  EXPECT_NE(checksum({a}), first);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = std::byte{0x80};
    EXPECT_NE(checksum({a, b}), first) << i;
    bytes[i] = std::byte{0};
  }
  bytes[7] = bytes[19] = std::byte{0x80};
  EXPECT_NE(checksum({a, b}), first);
  bytes = {};
  b.shape = {2, 2};
  EXPECT_NE(checksum({a, b}), first);
  b.shape = {4};
  EXPECT_EQ(checksum({a, b}), first);
  b.name = "c";
  EXPECT_NE(checksum({a, b}), first);
}

}  // namespace
}  // namespace glint
