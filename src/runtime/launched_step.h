// LaunchedStep: a step between launch and collect, and the memory through which its tokens and
// chosen experts reach the host.
#pragma once

#include <chrono>
#include <cstring>
#include <optional>
#include <vector>

#include "runtime/slice_run.h"
#include "tensor/device.h"
#include "tensor/tensor.h"

namespace glint {

// A copy of a device's tensor in memory of the host, which is there when an event has passed.
class Readback {
 public:
  // Asks for `tensor`, which is dense, after the ops so far. What was asked for before must have
  // been read.
  void ask(const Tensor& tensor, Device& device) {
    bytes_ = static_cast<std::size_t>(tensor.size()) * size_of(tensor.dtype);
    if (bytes_ > memory_.bytes()) memory_ = device.allocate_pinned(2 * bytes_);
    GLINT_CHECK(memory_.bytes() >= bytes_, "no memory for what a step tells the host");
    if (bytes_ > 0) device.copy(memory_.data(), tensor.data, bytes_);
  }
  std::span<const std::int32_t> ints() const {
    return {reinterpret_cast<const std::int32_t*>(memory_.data()), bytes_ / sizeof(std::int32_t)};
  }

 private:
  Buffer memory_;
  std::size_t bytes_ = 0;
};

struct LaunchedStep {
  std::shared_ptr<const StepPlan> plan = {};
  std::chrono::steady_clock::time_point begin = {};
  std::vector<SliceRun> runs = {};
  StepResult result = {};
  Readback tokens = {};  // drawn, a row each
  Readback routed = {};  // [MoE layers, T, num_experts_per_tok]
  Event begun = {};      // a graph's inputs are there; none where it is none
  Event computed = {};   // the last op has run
  Event done = {};       // both are there
  bool is_unread = false;
  std::optional<Error> failure = {};  // it came to nothing
};

}  // namespace glint
