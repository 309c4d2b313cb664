// RoutedExperts: the experts that tokens chose, as steps tell them: how often each was chosen,
// which an op counts on the device, and which they were, for requests that ask.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "ops/ops.h"
#include "runtime/readback.h"
#include "runtime/slice_run.h"

namespace glint {

// One step's, from its launch until it is read.
struct AskedRoutes {
  Readback counts = {};                 // [layers, experts], up to this step
  Readback ids = {};                    // [layers, T, k] of each replica, if a request asks
  std::vector<std::int64_t> rows = {};  // T of each replica in it, with padding
};

class RoutedExperts {
 public:
  // Without MoE layers nothing is asked or told. `ops` outlive this.
  RoutedExperts(Ops& ops, int layers, int num_experts, int k);
  // Memory of the device.
  static std::int64_t bytes(std::int64_t layers, std::int64_t num_experts) {
    return layers * num_experts * static_cast<std::int64_t>(sizeof(std::int32_t));
  }

  // After the ops of a step, which chose `routed` [layers, T, k] on each replica, replica after
  // replica, of `rows` tokens each; of a single replica, all.
  void ask(const Tensor& routed, std::vector<std::int64_t> rows, std::span<const SliceRun> runs,
           AskedRoutes& asked);
  // Once the step has been read. `replica_rows`: the rows of each replica without padding;
  // `members` of them one after another share the rows of a group.
  void tell(const AskedRoutes& asked, std::span<const int> replica_rows, int members,
            std::span<SliceRun> runs);

  // Tokens that each expert got up to the last step that was read: [layers, experts]. From any
  // thread.
  std::vector<std::uint64_t> load() const;

 private:
  Ops& ops_;
  const std::size_t layers_, k_;
  Buffer memory_;
  Tensor counts_;  // [layers, experts] i32
  mutable std::mutex mutex_;
  std::vector<std::int32_t> seen_;  // the counts when load_ was brought up to them
  std::vector<std::uint64_t> load_;
};

}  // namespace glint
