// OutputPlan: what a conversion writes, in which order, and from what.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/shard.h"
#include "quant/activation_ranges.h"
#include "quant/recipe.h"

namespace glint {

enum class UnitKind : std::uint8_t {
  kCopy,        // a stored tensor as it is
  kNvfp4,       // one weight, or two that share weight_scale_2 and input_scale
  kFp8,         // one weight
  kDequantize,  // one weight, to BF16
};

struct UnitWeight {
  std::string name;  // without ".weight"
  TensorRole role = TensorRole::kNorm;
  std::int64_t rows = 0, cols = 0;
};

// Tensors that are made at once, and never cut between two shards.
struct Unit {
  UnitKind kind = UnitKind::kCopy;
  std::size_t first_spec = 0;            // of the tensors it writes, which follow one another
  const StoredTensor* copied = nullptr;  // kCopy
  std::vector<UnitWeight> weights = {};  // the others
  float input_scale = 1;                 // kNvfp4
  std::int64_t source_bytes = 0;         // that are read
  std::vector<const StoredTensor*> stored = {};  // where these lie; none of stacked experts
};

struct OutputPlan {
  std::vector<TensorSpec> specs;
  std::vector<Unit> units;

  // Number of the first tensor of each unit, as plan_shards wants it.
  std::vector<std::size_t> unit_begins() const;
};

// Tensors a unit of that kind writes for each of its weights: data first, then scales.
std::size_t specs_per_weight(UnitKind kind);

// Goes through `checkpoint` in the order of its files. `quantized` is choose_quantized()'s answer
// (unused for kBf16, which converts whatever is stored in eight or four bits). Stacked experts that
// are converted come out one by one, as all engines read them. Fails if a weight cannot have the
// format, or if `ranges` is given and lacks a layer that needs an input scale. MTP layers after the
// first, whose tensors `table` does not have, are left out.
struct PlanInput {
  const ModelConfig& config;
  const Recipe& recipe;
  const std::vector<ModelTensor>& table;
  const std::vector<bool>& quantized;
  const ActivationRanges* ranges = nullptr;
};
Result<OutputPlan> plan_output(const PlanInput& input, const Checkpoint& checkpoint);

}  // namespace glint
