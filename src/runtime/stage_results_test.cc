#include "runtime/stage_results.h"

#include <gtest/gtest.h>

#include <numeric>

#include "comm/shared_comm.h"
#include "tensor/testing/late_device.h"
#include "tensor/transfer.h"

namespace glint {
namespace {

// 0, 1, .. in memory of `device`.
Tensor count(std::int64_t size, Arena& arena) {
  std::vector<float> numbers(static_cast<std::size_t>(size));
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  return upload(numbers, {size}, arena);
}

TEST(StageResults, that_are_not_taken_yet_outlast_larger_ones) {
  const auto pp = make_thread_comms(2);
  const std::unique_ptr<Device> host = make_host_device();
  LateDevice device;
  StageResults results(*pp[0], device);
  Arena arena(device), sent(*host);
  constexpr std::int64_t kSizes[] = {100, 1'000'000};
  std::vector<Tensor> got;
  for (const std::int64_t size : kSizes) {
    std::thread last_stage([&] { pp[1]->send(count(size, sent), 0); });
    got.push_back(arena.take(DType::kF32, {size}));
    results.receive(got.back());
    last_stage.join();
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(download<float>(got[i], device), download<float>(count(kSizes[i], sent), *host));
  }
}

TEST(StageResults, take_no_memory_beyond_what_was_reserved) {
  const auto pp = make_thread_comms(2);
  const std::unique_ptr<Device> host = make_host_device();
  constexpr std::int64_t kRows = 10, kWidth = 64, kBytes = kRows * kWidth * 4;
  LateDevice device(1 << 20);
  StageResults results(*pp[0], device);
  EXPECT_FALSE(results.reserve(3, 1 << 19));
  LateDevice larger(1 << 20);
  StageResults fit(*pp[0], larger);
  ASSERT_TRUE(fit.reserve(3, kBytes));
  const std::int64_t left = larger.memory().available;
  EXPECT_EQ(left, (1 << 20) - 3 * kBytes);
  std::thread last_stage([&] {
    Arena sent(*host);
    for (int step = 0; step < 6; ++step) pp[1]->send(count(kRows * kWidth, sent), 0);
  });
  for (int round = 0; round < 3; ++round) {
    for (int step = 0; step < 2; ++step) fit.begin({.rows = kRows, .width = kWidth}, {});
    for (int step = 0; step < 2; ++step) EXPECT_EQ(fit.end().logits.dim(0), kRows);
  }
  last_stage.join();
  EXPECT_EQ(larger.memory().available, left);
}

}  // namespace
}  // namespace glint
