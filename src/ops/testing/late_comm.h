// LateComm: a group on the host as if it were one of devices: its calls run on a LateDevice, when
// somebody waits, and belong to what is recorded.
#pragma once

#include <vector>

#include "comm/device_comm.h"
#include "tensor/testing/late_device.h"

namespace glint {

class LateComm final : public DeviceComm {
 public:
  // `waits`: each call waits for the device, as nobody else does where a rank follows others.
  LateComm(Comm& host, LateDevice& device, bool waits)
      : host_(host), device_(device), waits_(waits) {}

  Status connect() override { return Ok{}; }
  const char* way() const override { return "late"; }
  bool can_record() const override { return true; }
  bool can_record_exchange() const override { return true; }
  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  void all_reduce(const Tensor& partial, const Tensor& out) override {
    run([=, this] { host_.all_reduce(partial, out); });
  }
  void reduce_scatter(const Tensor& partial, const Tensor& out) override {
    run([=, this] { host_.reduce_scatter(partial, out); });
  }
  void all_gather(const Tensor& mine, const Tensor& all) override {
    run([=, this] { host_.all_gather(mine, all); });
  }
  void broadcast(const Tensor& x, int root) override {
    run([=, this] { host_.broadcast(x, root); });
  }
  void exchange(const ExchangeArgs& args) override {
    run([=, this, first = std::vector(args.first.begin(), args.first.end())] {
      ExchangeArgs later = args;
      later.first = first;
      host_.exchange(later);
    });
  }
  void send(const Tensor& x, int to) override {
    run([=, this] { host_.send(x, to); });
  }
  void recv(const Tensor& x, int from) override {
    run([=, this] { host_.recv(x, from); });
  }
  void barrier() override {
    device_.synchronize();
    host_.barrier();
  }

 private:
  void run(LateDevice::Work work) {
    device_.later(std::move(work));
    if (waits_ && !device_.is_recording()) device_.synchronize();
  }

  Comm& host_;
  LateDevice& device_;
  const bool waits_;
};

}  // namespace glint
