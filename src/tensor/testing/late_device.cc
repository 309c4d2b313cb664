#include "tensor/testing/late_device.h"

#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "base/check.h"

namespace glint {
namespace {

class LateGraph final : public Graph {
 public:
  LateGraph(LateDevice& device, std::deque<LateDevice::Work> work)
      : device_(device), work_(std::move(work)) {}
  void launch() override {
    for (const LateDevice::Work& work : work_) device_.later(work);
  }

 private:
  LateDevice& device_;
  const std::deque<LateDevice::Work> work_;
};

bool has_run(const Event& event) { return !event.handle() || *static_cast<bool*>(event.handle()); }

}  // namespace

LateDevice::LateDevice(std::size_t capacity) : capacity_(capacity) {
  void* const map =
      ::mmap(nullptr, capacity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  GLINT_CHECK(map != MAP_FAILED, "no addresses for a device of tests");
  ::madvise(map, capacity, MADV_HUGEPAGE);  // so that protecting it takes less, where there are any
  memory_ = static_cast<std::byte*>(map);
}

LateDevice::~LateDevice() { ::munmap(memory_, capacity_); }

Buffer LateDevice::allocate(std::size_t bytes) {
  const std::size_t size = (bytes + 255) / 256 * 256;
  if (size > capacity_ - used_) return {};
  GLINT_CHECK(!recording_, "a capture allocates");
  std::byte* const data = memory_ + used_;
  used_ += size;
  // Never given out again: who uses it afterwards finds garbage of its own making.
  return Buffer(data, bytes, [](void*, std::size_t) {});
}

void LateDevice::copy(void* to, const void* from, std::size_t bytes) {
  later([=] {
    if (bytes) std::memcpy(to, from, bytes);
  });
}

void LateDevice::copy_in(void* device, const void* host, std::size_t bytes) {
  GLINT_CHECK(!recording_, "a capture copies from memory that is not pinned");
  const auto* begin = static_cast<const std::byte*>(host);
  later([device, content = std::vector<std::byte>(begin, begin + bytes)] {
    if (!content.empty()) std::memcpy(device, content.data(), content.size());
  });
}

void LateDevice::copy_out(void* host, const void* device, std::size_t bytes) {
  copy(host, device, bytes);
  synchronize();
}

Event LateDevice::record() {
  const auto passed = std::make_shared<bool>(false);
  later([passed] { *passed = true; });
  return Event(passed);
}

void LateDevice::wait(const Event& event) {
  if (has_run(event)) return;
  run_until([&] { return has_run(event); });
  num_behind_wait_ = queue_.size();
}

void LateDevice::synchronize() {
  GLINT_CHECK(!recording_, "a capture waits");
  if (queue_.empty()) return;
  set_access(PROT_READ | PROT_WRITE);
  for (; !queue_.empty(); queue_.pop_front()) queue_.front()();
  set_access(PROT_NONE);
}

std::unique_ptr<Graph> LateDevice::capture(const std::function<void()>& run) {
  std::deque<Work> work;
  recording_ = &work;
  run();
  recording_ = nullptr;
  auto graph = std::make_unique<LateGraph>(*this, std::move(work));
  graph->launch();
  return graph;
}

void LateDevice::later(Work work) {
  (recording_ ? *recording_ : queue_).push_back(std::move(work));
}

void LateDevice::run_until(const std::function<bool()>& done) {
  set_access(PROT_READ | PROT_WRITE);
  do {
    GLINT_CHECK(!recording_ && !queue_.empty(), "an event is waited for that was never recorded");
    queue_.front()();
    queue_.pop_front();
  } while (!done());
  set_access(PROT_NONE);
}

void LateDevice::set_access(int protection) {
  GLINT_CHECK(::mprotect(memory_, capacity_, protection) == 0, "cannot protect a device of tests");
}

}  // namespace glint
