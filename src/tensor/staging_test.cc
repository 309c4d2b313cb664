#include "tensor/staging.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "base/thread_pool.h"
#include "tensor/testing/late_device.h"

namespace glint {
namespace {

TEST(Staging, pieces_of_any_size_arrive_though_their_source_changes_at_once) {
  LateDevice device;
  ThreadPool threads(2);
  const std::size_t sizes[] = {1, 300, 5000, 4096, 0, 12345, 3 << 20};
  const std::size_t total = std::accumulate(std::begin(sizes), std::end(sizes), std::size_t{0});
  const Buffer memory = device.allocate(total);
  std::vector<std::byte> expected;
  {
    Staging staging(device, threads, 4096);
    for (std::size_t i = 0; i < std::size(sizes); ++i) {
      std::vector<std::byte> source(sizes[i], static_cast<std::byte>(i + 1));
      staging.copy(memory.data() + expected.size(), source.data(), source.size());
      expected.insert(expected.end(), source.begin(), source.end());
      std::fill(source.begin(), source.end(), std::byte{0xFF});
    }
  }
  std::vector<std::byte> found(total);
  device.copy_out(found.data(), memory.data(), total);
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace glint
