// NcclGroup: a communicator of NCCL, which moves bytes; what is added, our kernels add. Every wait
// ends when the group on the host has ended.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <thread>

#include "backends/cuda/comm/nccl_library.h"
#include "backends/cuda/comm/windows.h"
#include "backends/cuda/device.h"
#include "comm/host_rows.h"

namespace glint::cuda {

class NcclGroup {
 public:
  // Collective in `host`, which, as the device, outlives the result.
  static Result<std::unique_ptr<NcclGroup>> make(const NcclLibrary& nccl, Comm& host,
                                                 CudaDevice& device);
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;

  // Collective: the group's windows, as long as it lives.
  Result<Windows> make_windows();

  // The calls of Comm.
  void all_reduce(const Tensor& partial, const Tensor& out);
  void reduce_scatter(const Tensor& partial, const Tensor& out);
  void all_gather(const Tensor& mine, const Tensor& all);
  void broadcast(const Tensor& x, int root);
  void exchange(const ExchangeArgs& args);  // waits for the device, for the sizes
  void send(const Tensor& x, int to);
  void recv(const Tensor& x, int from);
  // NCCL's own sum of f32, whose order is its own: to compare speeds with.
  void sum_by_nccl(const Tensor& partial, const Tensor& out);

 private:
  NcclGroup(const NcclLibrary& nccl, Comm& host, CudaDevice& device);
  Status connect();
  // Whether all ranks do. Collective, so that nobody waits for one that has failed.
  bool all_say(bool mine);
  // Fails on all where one has no room.
  Status expect_room(bool mine, std::size_t bytes);
  bool has_ended() const { return ended_->load(std::memory_order_acquire) != 0; }
  void watch(const std::atomic<std::uint32_t>& host_ended);
  // The result of a call of NCCL, once it has been taken up; the caller holds calling_.
  ncclResult_t settle(ncclResult_t result);
  // Makes the call of NCCL; where the group has ended before it is done, `written` becomes zeros.
  template <class Call>
  void run(const char* name, const Tensor& written, Call&& call);
  // all_reduce of what scratch_ has room for.
  void add_up(const Tensor& partial, const Tensor& out);
  // Part of an exchange: rows by whom they are for, and by whom they come from.
  void move_rows(const ExchangeArgs& args, std::span<const SentRows> given,
                 std::span<const SentRows> taken);
  float* scratch_floats() const { return reinterpret_cast<float*>(scratch_.data()); }

  const NcclLibrary& nccl_;
  Comm& host_;
  CudaDevice& device_;
  const int rank_, size_;
  std::timed_mutex calling_;                // held by whoever uses comm_
  std::atomic<ncclComm_t> comm_ = nullptr;  // null: it was ended
  Buffer pinned_, turns_;
  Buffer scratch_;  // kGroupScratch; what is larger passes through it in pieces
  std::atomic<std::uint32_t>* ended_ = nullptr;  // in pinned_, for kernels that wait
  void* window_memory_ = nullptr;
  ncclWindow_t window_ = nullptr;
  std::atomic<bool> has_windows_ = false, ending_ = false;
  std::thread watcher_;
};

}  // namespace glint::cuda
