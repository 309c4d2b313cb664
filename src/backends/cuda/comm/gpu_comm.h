// GpuComm: a group of ranks that are GPUs (comm/device_comm.h).
#pragma once

#include <memory>

#include "backends/cuda/comm/choose_way.h"
#include "backends/cuda/comm/collectives.h"
#include "backends/cuda/device.h"
#include "comm/counting_comm.h"
#include "comm/device_comm.h"
#include "comm/staged_comm.h"

namespace glint::cuda {

class NcclGroup;

class GpuComm final : public DeviceComm {
 public:
  // Both outlive it.
  GpuComm(Comm& host, CudaDevice& device, bool use_windows);
  ~GpuComm() override;

  Status connect() override;
  const char* way() const override { return name_of(way_); }

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
  bool can_record() const override { return way_ != Way::kHost; }
  bool can_record_exchange() const override { return way_ == Way::kWindows; }
  CommCounters* counters() override { return host_.counters(); }
  const std::atomic<std::uint32_t>* ended() const override { return host_.ended(); }

  // To compare speeds: this way of adding, or NCCL's own sum, where there is NCCL.
  void all_reduce_by(Shots shots, const Tensor& partial, const Tensor& out);
  void all_reduce_by_nccl(const Tensor& partial, const Tensor& out);

 private:
  template <class Call>
  void run(CommKind kind, const Tensor& x, Call&& call);

  Comm& host_;
  CudaDevice& device_;
  const bool use_windows_;
  Way way_ = Way::kHost;
  StagedComm staged_;
  std::unique_ptr<NcclGroup> nccl_;
  Windows windows_ = {};
};

}  // namespace glint::cuda
