// CudaDevice: one GPU, its memory, and the one stream that everything runs on, in order, with
// branches beside it.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "backends/cuda/gpu.h"
#include "base/result.h"
#include "tensor/device.h"

namespace glint::cuda {

class CudaDevice final : public Device {
 public:
  static Result<std::unique_ptr<CudaDevice>> make(int ordinal);
  // Whether there is such a device, and whether these kernels run on it.
  static Status find(int ordinal);
  static int count();
  // A sentence for the user about a device that find() takes, or nothing.
  static std::string note(int ordinal);
  ~CudaDevice() override;

  const char* name() const override { return name_.c_str(); }
  bool is_host() const override { return false; }
  DeviceMemory memory() override;
  // In the order of the stream, as is the release: nothing waits.
  Buffer allocate(std::size_t bytes) override;
  Buffer allocate_pinned(std::size_t bytes) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void copy_in(void* device, const void* host, std::size_t bytes) override;
  void copy_out(void* host, const void* device, std::size_t bytes) override;
  Event record() override;
  void wait(const Event& event) override;
  double seconds_between(const Event& from, const Event& to) override;
  void synchronize() override;
  // Whether all that was launched has run; not while a graph is recorded.
  bool is_idle();
  std::unique_ptr<Graph> capture(const std::function<void()>& run) override;

  const Gpu& gpu() const { return gpu_; }
  int ordinal() const { return ordinal_; }

  // Runs `launch(gpu)`, which starts the kernels of `op`, and checks that they started. `op` is
  // a literal: errors that come up later name it.
  template <class Launch>
  void run(const char* op, Launch&& launch) {
    select();
    last_op_ = op;
    launch(gpu_);
    gpu_.overlaps = true;
    check(cudaGetLastError(), "launch");
  }

  // The launches are a branch beside all between the last fork() and join(), which waits for all
  // branches: none may write what another touches. What was launched first finds room first. Of few
  // `rows` it is one only while a graph is recorded: else the host would keep the device waiting.
  template <class Launches>
  void beside(Launches&& launches) {
    begin_branch();
    launches();
    end_branch();
  }
  void fork(std::int64_t rows);
  void join();

 private:
  explicit CudaDevice(int ordinal);

  void begin_branch();
  void end_branch();
  void select() { check(cudaSetDevice(ordinal_), "select"); }  // per thread
  void check(cudaError_t error, const char* call) const;

  const int ordinal_;
  const std::string name_;  // "cuda:0"
  Gpu gpu_ = {};
  struct Branch {
    cudaStream_t stream = nullptr;  // in the branch itself the main one
    cudaEvent_t ended = nullptr;
  };
  static constexpr int kMostBranches = 4;
  std::array<Branch, kMostBranches> branches_;
  int num_branches_ = 0;  // since the last join
  cudaEvent_t forked_ = nullptr;
  bool recording_ = false, has_branches_ = false;
  std::byte* staging_ = nullptr;  // pinned; small copies in pass through it
  std::size_t staged_ = 0;        // where the next one goes
  Event staged_half_[2];          // when each half was read
  const char* last_op_ = "no op";
};

}  // namespace glint::cuda
