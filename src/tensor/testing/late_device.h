// LateDevice: a device that is not the host, for tests without one. Host code that dereferences its
// memory dies by SIGSEGV, and work is done as late as it may be: when somebody waits for it.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "tensor/device.h"

namespace glint {

// Memory is one stretch of addresses, which can be read and written while queued work runs, and at
// no other time. One thread.
class LateDevice final : public Device {
 public:
  explicit LateDevice(std::size_t capacity = std::size_t{4} << 30);
  ~LateDevice() override;

  const char* name() const override { return "late"; }
  bool is_host() const override { return false; }
  DeviceMemory memory() override {
    return {.total = static_cast<std::int64_t>(capacity_),
            .available = static_cast<std::int64_t>(capacity_ - used_)};
  }
  Buffer allocate(std::size_t bytes) override;
  std::int64_t row_pitch(std::int64_t bytes) const override { return host_->row_pitch(bytes); }
  Buffer allocate_pinned(std::size_t bytes) override { return host_->allocate(bytes); }
  void copy(void* to, const void* from, std::size_t bytes) override;
  void copy_in(void* device, const void* host, std::size_t bytes) override;
  void copy_out(void* host, const void* device, std::size_t bytes) override;
  Event record() override;
  void wait(const Event& event) override;
  void synchronize() override;
  std::unique_ptr<Graph> capture(const std::function<void()>& run) override;

  // Pieces of work that have not run.
  std::size_t num_queued() const { return queue_.size(); }
  // Pieces of work queued behind an event, when one that had not passed was last waited for.
  std::size_t num_behind_wait() const { return num_behind_wait_; }

  bool is_recording() const { return recording_ != nullptr; }

  // Queues an op: runs after everything that was asked for before.
  using Work = std::function<void()>;
  void later(Work work);

 private:
  void run_until(const std::function<bool()>& done);  // one piece of work at least
  void set_access(int protection);

  const std::unique_ptr<Device> host_ = make_host_device();
  std::byte* memory_ = nullptr;
  std::size_t capacity_ = 0, used_ = 0;
  std::deque<Work> queue_;
  std::size_t num_behind_wait_ = 0;
  std::deque<Work>* recording_ = nullptr;  // of the capture in progress
};

}  // namespace glint
