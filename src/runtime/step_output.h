// The results of a step on a device, and hidden states that go into one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace glint {

// Logits of the rows that wanted them, in order, and the final hidden states. All of it is valid
// until the next pass of its kind (step or draft); on the device, until one is asked for. Of steps
// of all replicas: those of all, replica after replica, on the leader.
struct StepOutput {
  std::span<const float> logits = {};  // [R, V], on the host if wanted there
  Tensor device_logits = {};           // the logits on the device
  // [T, hidden], of this rank's rows; drafts: [S, hidden], of each slice's last row.
  Tensor hidden = {};
  // Drafts: the keys [S, index_topk] that each slice's last row attended to.
  Tensor selected = {};
  // [MoE layers, T, num_experts_per_tok], on the host if wanted there, and on the device; or empty.
  std::span<const std::int32_t> routed = {};
  Tensor device_routed = {};
  std::vector<std::int64_t> routed_rows = {};  // of each replica, with padding
  std::int64_t vocab = 0;

  std::span<const float> row(std::int64_t r) const { return logits.subspan(r * vocab, vocab); }
};

// Hidden states that go into a pass: bytes [T, hidden] on the host; or all rows of a tensor on the
// device; or, without either, these rows of what the last step left on each replica, replica after
// replica.
struct HiddenRows {
  Tensor on_device = {};
  std::span<const std::int32_t> rows = {};
  std::span<const std::byte> on_host = {};
};

}  // namespace glint
