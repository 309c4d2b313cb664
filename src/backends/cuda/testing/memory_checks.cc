#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "backends/cuda/testing/device_checks.h"
#include "backends/cuda/testing/device_values.h"

namespace glint::cuda {
namespace {

// The host buffer changes between the copies, and no copy may see a later content.
std::string copies_read_the_host_before_they_return(Ops& ops) {
  Device& device = ops.device();
  constexpr std::size_t kCopies = 500, kLargest = 3'000'000;
  std::vector<std::size_t> at(kCopies + 1);
  for (std::size_t i = 0; i < kCopies; ++i) {
    at[i + 1] = at[i] + (i % 50 == 0 ? kLargest : philox(1, 0, i)[0] % 9000);
  }
  const Buffer buffer = device.allocate(at[kCopies]);
  std::vector<std::byte> host(kLargest);
  for (std::size_t i = 0; i < kCopies; ++i) {
    std::memset(host.data(), static_cast<int>(i % 251), host.size());
    device.copy_in(buffer.data() + at[i], host.data(), at[i + 1] - at[i]);
  }
  std::vector<std::byte> back(at[kCopies]);
  device.copy_out(back.data(), buffer.data(), back.size());
  for (std::size_t i = 0; i < kCopies; ++i) {
    for (std::size_t j = at[i]; j < at[i + 1]; ++j) {
      if (back[j] != static_cast<std::byte>(i % 251)) return str("copy ", i, " went wrong");
    }
  }
  return "";
}

// As a trainer's thread does while the engine's records a step.
std::string memory_is_freed_while_another_thread_records(Ops& ops) {
  Device& device = ops.device();
  Values<> from(device, 1, 100, 40), to(device, 1, 100, 41);
  Buffer freed = device.allocate(1000);
  std::thread other;
  const std::unique_ptr<Graph> graph = device.capture([&] {
    other = std::thread([&freed] { freed = {}; });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    device.copy(to.tensor().data, from.tensor().data, from.tensor().bytes().size());
  });
  other.join();
  return compare_bits(device, "what a graph copies", to.tensor(), from.tensor());
}

std::string too_large_an_allocation_is_an_empty_buffer(Ops& ops) {
  if (ops.device().allocate(std::size_t{1} << 50).data()) return "got a PiB";
  if (!ops.device().allocate(1 << 20).data()) return "no memory after a refusal";
  return "";
}

}  // namespace

std::vector<DeviceCheck> memory_checks() {
  return {
      {"copies_read_the_host_before_they_return", copies_read_the_host_before_they_return},
      {"memory_is_freed_while_another_thread_records",
       memory_is_freed_while_another_thread_records},
      {"too_large_an_allocation_is_an_empty_buffer", too_large_an_allocation_is_an_empty_buffer}};
}

}  // namespace glint::cuda
