#include "runtime/logprobs.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

// The host's memory, of which copies fill nothing: it is larger than a machine's may be.
class SparseDevice final : public Device {
 public:
  const char* name() const override { return "sparse"; }
  bool is_host() const override { return true; }
  DeviceMemory memory() override { return host_->memory(); }
  Buffer allocate(std::size_t bytes) override { return host_->allocate(bytes); }
  Buffer allocate_pinned(std::size_t bytes) override {
    Buffer buffer = host_->allocate(bytes);
    pinned = {buffer.data(), bytes};
    return buffer;
  }
  void copy(void*, const void*, std::size_t) override {}
  void copy_in(void*, const void*, std::size_t) override {}
  void copy_out(void*, const void*, std::size_t) override {}
  Event record() override { return {}; }
  void wait(const Event&) override {}
  void synchronize() override {}
  std::unique_ptr<Graph> capture(const std::function<void()>&) override { return nullptr; }

  std::span<std::byte> pinned = {};

 private:
  const std::unique_ptr<Device> host_ = make_host_device();
};

TEST(Logprobs, results_of_many_tokens_are_found_behind_two_thousand_million_numbers) {
  constexpr int kRows = 7000, kOthers = 154'880;
  constexpr std::size_t kEach = 2 + 2 * std::size_t{kOthers};
  SparseDevice device;
  AskedLogprobs asked = {.rows = kRows, .others = kOthers};
  asked.values.begin(4 * kEach * kRows, device);
  // More by no more than a few steps tell.
  EXPECT_LT(device.pinned.size(), 5 * kEach * kRows);
  asked.values.add(Tensor(device.pinned.data(), DType::kI32, {kRows, kEach}), device);
  // The last of a block of 24 tokens.
  constexpr std::size_t kCount = kRows % kLogprobRows;
  const std::size_t block = (kRows - kCount) * kEach;
  ASSERT_GT(block, std::size_t{1} << 31);
  auto* const floats = reinterpret_cast<float*>(device.pinned.data()) + block;
  auto* const ints = reinterpret_cast<std::int32_t*>(device.pinned.data()) + block;
  floats[kCount - 1] = -2.5f;
  ints[2 * kCount - 1] = 12;
  ints[(2 + kOthers) * kCount - 1] = 77;
  floats[kEach * kCount - 1] = -9.5f;
  const TokenLogprob last = asked.read(kRows - 1, kOthers);
  EXPECT_EQ(last.logprob, -2.5f);
  EXPECT_EQ(last.rank, 12);
  ASSERT_EQ(last.top.size(), std::size_t{kOthers});
  EXPECT_EQ(last.top.back().id, 77);
  EXPECT_EQ(last.top.back().logprob, -9.5f);
}

}  // namespace
}  // namespace glint
