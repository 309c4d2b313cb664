#include "tensor/device.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "base/ceil_div.h"
#include "base/memory.h"
#include "tensor/huge_page.h"

namespace glint {
namespace {

class HostDevice final : public Device {
 public:
  const char* name() const override { return "cpu"; }
  bool is_host() const override { return true; }
  DeviceMemory memory() override {
    return {.total = total_memory(), .available = available_memory()};
  }

  // mmap, not malloc: pages come zeroed and only when touched, and 2 MiB pages spare the TLB when
  // weights are streamed.
  Buffer allocate(std::size_t bytes) override {
    constexpr auto kPage = static_cast<std::size_t>(kHugePage);
    if (bytes == 0) bytes = 1;
    const bool is_huge = bytes >= kPage;
    if (is_huge) bytes = round_up(bytes, kPage);
    const std::size_t mapped = is_huge ? bytes + kPage : bytes;
    void* const map = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) return {};
    auto* data = static_cast<std::byte*>(map);
    if (is_huge) {  // huge pages begin at multiples of their size: cut both ends
      const std::size_t before = -reinterpret_cast<std::uintptr_t>(map) % kPage;
      if (before) ::munmap(data, before);
      data += before;
      ::munmap(data + bytes, kPage - before);
      ::madvise(data, bytes, MADV_HUGEPAGE);
    }
    return Buffer(data, bytes, [](void* p, std::size_t n) { ::munmap(p, n); });
  }
  // Rows that lay a multiple of 512 bytes apart would share the sets of a cache.
  std::int64_t row_pitch(std::int64_t bytes) const override {
    return bytes % 512 == 0 ? bytes + 64 : bytes;
  }
  Buffer allocate_pinned(std::size_t bytes) override { return allocate(bytes); }
  void copy(void* to, const void* from, std::size_t bytes) override {
    if (bytes) std::memcpy(to, from, bytes);  // either may be null when there is nothing
  }
  void copy_in(void* device, const void* host, std::size_t bytes) override {
    copy(device, host, bytes);
  }
  void copy_out(void* host, const void* device, std::size_t bytes) override {
    copy(host, device, bytes);
  }
  Event record() override { return {}; }
  void wait(const Event&) override {}
  void synchronize() override {}
  std::unique_ptr<Graph> capture(const std::function<void()>& run) override {
    run();
    return nullptr;
  }
};

}  // namespace

std::unique_ptr<Device> make_host_device() { return std::make_unique<HostDevice>(); }

}  // namespace glint
