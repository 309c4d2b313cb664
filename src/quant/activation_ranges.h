// Activation ranges: how large the inputs of each linear layer became while a model ran, and over
// how many tokens. `glint calibrate` writes them, `glint quantize --calibration` turns them into
// input scales.
//
//   {"format": "glint activation ranges", "version": 1,
//    "ranges": {"model.layers.3.mlp.experts.0.gate_proj": {"amax": 7.25, "tokens": 1184}, ...}}
//
// The keys are names of linear layers as checkpoints spell them, without ".weight". An expert that
// no token reached stands there with zero tokens, so that nobody has to guess.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace glint {

struct ActivationRange {
  float amax = 0;           // largest magnitude of any input element; 0 if tokens is 0
  std::int64_t tokens = 0;  // input rows seen

  bool operator==(const ActivationRange&) const = default;
};

using ActivationRanges = std::map<std::string, ActivationRange>;

Json to_json(const ActivationRanges& ranges);

// Refuses, naming the entry: what is no such file, an amax that is negative or no number, a range
// without tokens that has an amax.
Result<ActivationRanges> parse_activation_ranges(const Json& json);
Result<ActivationRanges> read_activation_ranges(const std::string& path);

// Both calibrations as one: the larger amax of each layer, the sum of its tokens.
void merge_into(ActivationRanges& ranges, const ActivationRanges& more);

// Gives every routed expert's projection that saw no token, or nothing but zeros (as behind pruned
// weights), the largest amax of that projection among the experts of its layer, and returns the
// names of those that got one. An expert whose layer saw nothing at all stays as it is.
std::vector<std::string> fill_unseen_experts(ActivationRanges& ranges);

}  // namespace glint
