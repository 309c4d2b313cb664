// PassContext: what the batches of a GradientPass share: the model on its tape, and memory.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "autograd/tape_ops.h"
#include "model/glm.h"
#include "tensor/transfer.h"

namespace glint {

// For tests.
struct PassProbes {
  std::function<void(const Tensor& logits)> on_logits = {};  // [R, vocab] of rows of a batch
  bool checks_remains = false;  // aborts where a gradient is left over after a layer
};

struct PassContext {
  explicit PassContext(TapeOps& tape, const Mesh& host = {})
      : tape(tape), host(host), arena(tape.device()), shadow(arena) {}

  // Before the first batch, and whenever the caches were made anew.
  void use(const Model& of, const Tensor& rope_table) {
    model.emplace(of);
    rotary_table = rope_table;
  }
  Device& device() { return tape.device(); }
  Gradients& gradients() { return tape.gradients(); }
  void record(const std::function<void()>& run) { tape.record(arena, shadow, run); }
  // [R, width]: these rows of `x`.
  Tensor gathered(const Tensor& x, const std::vector<std::int32_t>& rows) {
    const auto R = static_cast<std::int64_t>(rows.size());
    const Tensor out = arena.take(x.dtype, {R, x.dim(1)});
    model->ops.gather_rows({.x = x, .rows = upload(rows, {R}, arena), .out = out});
    return out;
  }
  // Memory that a batch keeps between forward and backward, of several at once.
  Arena& saved(std::size_t i) {
    while (saved_.size() <= i) saved_.push_back(std::make_unique<Arena>(device()));
    return *saved_[i];
  }

  TapeOps& tape;
  const Mesh host;  // the rank's groups on the host, where ranks agree
  std::optional<Model> model = {};
  Tensor rotary_table = {};
  Arena arena;  // of a pass: what it takes, and keeps for its backward pass
  Shadow shadow;
  bool keeps_layers = false;  // forward passes record layers, and none is computed again
  PassProbes probes = {};

 private:
  std::vector<std::unique_ptr<Arena>> saved_;
};

}  // namespace glint
