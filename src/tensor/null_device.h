// NullDevice: memory that is only counted. What runs on it shows how much it would take, in no
// memory and no time.
#pragma once

#include <memory>

#include "tensor/device.h"

namespace glint {

// Addresses that nothing may read or write, each given out once; copies and waits do nothing.
class NullDevice final : public Device {
 public:
  // Rows are as far apart as on `like`, which outlives this; dense without.
  explicit NullDevice(const Device* like = nullptr) : like_(like) {}

  const char* name() const override { return "null"; }
  bool is_host() const override { return false; }
  DeviceMemory memory() override { return {}; }
  Buffer allocate(std::size_t bytes) override;
  std::int64_t row_pitch(std::int64_t bytes) const override {
    return like_ ? like_->row_pitch(bytes) : bytes;
  }
  Buffer allocate_pinned(std::size_t bytes) override { return allocate(bytes); }
  void copy(void*, const void*, std::size_t) override {}
  void copy_in(void*, const void*, std::size_t) override {}
  void copy_out(void*, const void*, std::size_t) override {}
  Event record() override { return {}; }
  void wait(const Event&) override {}
  void synchronize() override {}
  std::unique_ptr<Graph> capture(const std::function<void()>& run) override;

  // Asked for so far, in whole blocks of 256 bytes; what was given back counts too.
  std::size_t allocated() const { return allocated_; }

 private:
  const Device* const like_;
  std::size_t allocated_ = 0;
};

}  // namespace glint
