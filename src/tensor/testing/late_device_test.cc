#include "tensor/testing/late_device.h"

#include <gtest/gtest.h>

#include <vector>

namespace glint {
namespace {

std::vector<int> read(LateDevice& device, const Buffer& buffer, std::size_t count) {
  std::vector<int> values(count);
  device.copy_out(values.data(), buffer.data(), count * sizeof(int));
  return values;
}

TEST(LateDevice, pageable_memory_is_read_at_once_and_pinned_memory_when_the_copy_runs) {
  LateDevice device;
  const Buffer there = device.allocate(8), pinned = device.allocate_pinned(4);
  int& staged = *reinterpret_cast<int*>(pinned.data());
  int pageable = 1;
  staged = 1;
  device.copy_in(there.data(), &pageable, sizeof pageable);
  device.copy(there.data() + 4, &staged, sizeof staged);
  pageable = staged = 2;
  EXPECT_EQ(read(device, there, 2), (std::vector<int>{1, 2}));
}

TEST(LateDevice, nothing_runs_before_somebody_waits) {
  LateDevice device;
  int runs = 0;
  device.later([&] { ++runs; });
  const Event first = device.record();
  device.later([&] { ++runs; });
  EXPECT_EQ(runs, 0);
  device.wait(first);
  EXPECT_EQ(runs, 1);
  device.synchronize();
  EXPECT_EQ(runs, 2);
}

TEST(LateDevice, a_graph_repeats_what_was_asked_for) {
  LateDevice device;
  int runs = 0;
  const std::unique_ptr<Graph> graph = device.capture([&] { device.later([&] { ++runs; }); });
  ASSERT_TRUE(graph);
  graph->launch();
  EXPECT_EQ(runs, 0);
  device.synchronize();
  EXPECT_EQ(runs, 2);
}

TEST(LateDeviceDeath, the_host_cannot_read_its_memory) {
  LateDevice device;
  const Buffer there = device.allocate(4);
  device.copy_in(there.data(), "abc", 4);
  device.synchronize();
  EXPECT_DEATH(
      {
        volatile std::byte value = *there.data();
        (void)value;
      },
      "");
}

TEST(LateDeviceDeath, a_capture_neither_waits_nor_reads_what_is_not_pinned) {
  LateDevice device;
  const Buffer there = device.allocate(4);
  EXPECT_DEATH(device.capture([&] { device.synchronize(); }), "a capture waits");
  EXPECT_DEATH(device.capture([&] { device.copy_in(there.data(), "abc", 4); }), "not pinned");
}

}  // namespace
}  // namespace glint
