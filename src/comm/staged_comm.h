// StagedComm: a group whose tensors lie on a device that the others do not reach. Each call copies
// them to the host, where the group on the host does it, and back. It waits for the device.
#pragma once

#include <vector>

#include "comm/device_comm.h"
#include "tensor/device.h"

namespace glint {

class StagedComm : public DeviceComm {
 public:
  // Both outlive it.
  StagedComm(Comm& host, Device& device) : host_(host), device_(device) {}

  Status connect() override { return Ok{}; }
  const char* way() const override { return "through the host"; }

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  void all_reduce(const Tensor& partial, const Tensor& out) override;
  void reduce_scatter(const Tensor& partial, const Tensor& out) override;
  void all_gather(const Tensor& mine, const Tensor& all) override;
  void broadcast(const Tensor& x, int root) override;
  void exchange(const ExchangeArgs& args) override;
  void send(const Tensor& x, int to) override;
  void recv(const Tensor& x, int from) override;
  void barrier() override;
  CommCounters* counters() override { return host_.counters(); }
  const std::atomic<std::uint32_t>* ended() const override { return host_.ended(); }

 private:
  // A tensor on the host of x's shape; from_device() copies what x holds, with its gaps.
  using Copy = std::vector<std::byte>;
  static Tensor like(const Tensor& x, Copy& memory);
  Tensor from_device(const Tensor& x, Copy& memory);
  void to_device(const Tensor& host, const Tensor& x);

  Comm& host_;
  Device& device_;
  Copy given_, taken_, rows_, offsets_;
};

}  // namespace glint
