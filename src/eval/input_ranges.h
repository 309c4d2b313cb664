// InputRanges: the largest input of every linear layer that a quantiser may convert, gathered while
// a model runs on TapOps.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/weights.h"
#include "ops/tap_ops.h"
#include "quant/activation_ranges.h"

namespace glint {

// Exact: a maximum depends neither on order nor on how rows were batched.
class InputRanges {
 public:
  // `weights`: those of the model that runs; the products show their ids.
  explicit InputRanges(const ModelWeights& weights);
  InputRanges(const InputRanges&) = delete;
  InputRanges& operator=(const InputRanges&) = delete;

  // Taps that report to this object, which must outlive their use.
  InputTaps taps(Device& device);

  // Every layer known, also those that saw nothing.
  ActivationRanges ranges() const;
  // Fails if an input was NaN or infinite, naming the first layer that was given one.
  Status check_finite() const;

 private:
  struct Slot {
    std::string name;
    ActivationRange range = {};
  };

  // The first slot of the weights with this id, or none; experts have theirs in a row.
  std::optional<std::size_t> slot_of(int id) const;
  void see(std::size_t slot, std::span<const float> row_maxima);

  std::vector<Slot> slots_;
  std::vector<std::optional<std::size_t>> first_slots_;  // of each tensor of the model
  std::string not_finite_;                               // the first layer whose input was
};

// The largest magnitude of each row of x [T, K] (f32 or bf16, rows may be strided): [T]. Infinite
// for a row that holds infinity or NaN.
std::vector<float> row_maxima(const Tensor& x, Device& device);

}  // namespace glint
