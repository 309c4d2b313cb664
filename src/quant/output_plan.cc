#include "quant/output_plan.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "base/parse_number.h"
#include "base/str.h"
#include "quant/matchers.h"

namespace glint {
namespace {

// Suffixes of tensors that a conversion to BF16 leaves out.
constexpr std::string_view kScaleSuffixes[] = {
    ".weight_scale", ".weight_scale_inv",   ".weight_scale_2", ".weight_global_scale",
    ".input_scale",  ".input_global_scale", ".weight_shape"};

class Planner {
 public:
  Planner(const PlanInput& input, const Checkpoint& checkpoint)
      : config_(input.config),
        recipe_(input.recipe),
        table_(input.table),
        quantized_(input.quantized),
        ranges_(input.ranges),
        checkpoint_(checkpoint) {
    for (std::size_t i = 0; i < table_.size(); ++i) index_names(i);
  }

  Result<OutputPlan> plan() {
    for (const StoredTensor& tensor : checkpoint_.source().tensors()) {
      if (is_unused(tensor.name)) continue;
      GLINT_TRY_STATUS(recipe_.format == TargetFormat::kBf16 ? add_for_bf16(tensor)
                                                             : add_for_quantized(tensor));
    }
    return std::move(plan_);
  }

 private:
  struct Copy {
    std::size_t tensor = 0;  // in the table
    int expert = 0;
  };

  bool is_unused(const std::string& name) const {
    const auto parts = split(name, '.');  // "model.layers.79.eh_proj.weight"
    if (parts.size() < 4 || parts[0] != "model" || parts[1] != "layers") return false;
    const std::int64_t layer = parse_number<std::int64_t>(parts[2]).value_or(-1);
    const int first = config_.num_layers_with_mtp();
    return layer >= first && layer < first + config_.num_unused_mtp_layers;
  }

  void index_names(std::size_t i) {
    const ModelTensor& tensor = table_[i];
    if (!tensor.is_matrix()) return;
    for (int expert = 0; expert < tensor.num_copies(); ++expert) {
      copies_.emplace(tensor.name_of_copy(expert), Copy{i, expert});
    }
    if (tensor.num_experts) stacks_[stack_of_experts(tensor.name_of_copy(0))].push_back(i);
  }

  const Copy* find(const std::string& name) const {
    const auto at = copies_.find(name);
    return at == copies_.end() ? nullptr : &at->second;
  }

  UnitWeight weight_of(const Copy& copy) const {
    const ModelTensor& tensor = table_[copy.tensor];
    return {.name = tensor.name_of_copy(copy.expert),
            .role = tensor.role,
            .rows = tensor.rows,
            .cols = tensor.cols};
  }

  void add_copy(const StoredTensor& tensor) {
    plan_.units.push_back({.kind = UnitKind::kCopy,
                           .first_spec = plan_.specs.size(),
                           .copied = &tensor,
                           .source_bytes = std::ssize(tensor.bytes),
                           .stored = {&tensor}});
    plan_.specs.push_back({tensor.name, tensor.type, tensor.shape});
  }

  Status add_for_bf16(const StoredTensor& tensor) {
    for (const std::string_view suffix : kScaleSuffixes) {
      if (!tensor.name.ends_with(suffix)) continue;
      if (find(tensor.name.substr(0, tensor.name.size() - suffix.size()))) return Ok{};
    }
    constexpr std::string_view kStackScale = "_scale_inv";
    if (tensor.name.ends_with(kStackScale) &&
        stacks_.contains(tensor.name.substr(0, tensor.name.size() - kStackScale.size()))) {
      return Ok{};
    }
    if (const auto stack = stacks_.find(tensor.name);
        stack != stacks_.end() && tensor.type == StoredType::kF8E4M3) {
      return for_each_of(stack->second, [&](const Copy& copy) {
        return add_unit(UnitKind::kDequantize, {copy}, tensor);
      });
    }
    const std::string name = without_weight(tensor.name);
    const Copy* copy = name.empty() ? nullptr : find(name);
    if (!copy || tensor.type == StoredType::kBF16 || tensor.type == StoredType::kF32) {
      add_copy(tensor);
      return Ok{};
    }
    return add_unit(UnitKind::kDequantize, {*copy}, tensor);
  }

  Status add_for_quantized(const StoredTensor& tensor) {
    if (const auto stack = stacks_.find(tensor.name);
        stack != stacks_.end() && quantized_[stack->second[0]]) {
      return for_each_of(stack->second, [&](const Copy& copy) { return add_weight(copy, tensor); });
    }
    const std::string name = without_weight(tensor.name);
    const Copy* copy = name.empty() ? nullptr : find(name);
    if (copy && quantized_[copy->tensor]) return add_weight(*copy, tensor);
    add_copy(tensor);
    return Ok{};
  }

  // Adds every weight of a stack of experts, expert after expert.
  template <class F>
  Status for_each_of(const std::vector<std::size_t>& stack, const F& add) {
    for (int expert = 0; expert < table_[stack[0]].num_experts; ++expert) {
      for (const std::size_t i : stack) GLINT_TRY_STATUS(add(Copy{i, expert}));
    }
    return Ok{};
  }

  // With its partner, unless it came with that one already.
  Status add_weight(const Copy& copy, const StoredTensor& stored) {
    if (recipe_.format == TargetFormat::kFp8) return add_unit(UnitKind::kFp8, {copy}, stored);
    const std::string name = table_[copy.tensor].name_of_copy(copy.expert);
    if (done_.contains(name)) return Ok{};
    std::vector<Copy> copies = {copy};
    if (const auto pair = fused_pair(name)) {
      const std::string& partner = name == pair->first ? pair->second : pair->first;
      copies.push_back(*find(partner));
      done_.insert(partner);
    }
    return add_unit(UnitKind::kNvfp4, copies, stored);
  }

  // `stored` is one of what it is read from: its type says how much that is.
  Status add_unit(UnitKind kind, const std::vector<Copy>& copies, const StoredTensor& stored) {
    Unit unit = {.kind = kind, .first_spec = plan_.specs.size()};
    for (const Copy& copy : copies) {
      unit.weights.push_back(weight_of(copy));
      const std::int64_t bits = stored.type == StoredType::kU8 ? 4 : bits_of(stored.type);
      unit.source_bytes += unit.weights.back().rows * unit.weights.back().cols * bits / 8;
      const std::string& name = unit.weights.back().name;
      for (const char* suffix : {".weight", ".weight_packed"}) {
        const StoredTensor* found = checkpoint_.source().find(name + suffix);
        if (found) unit.stored.push_back(found);
      }
      GLINT_TRY_STATUS(add_specs(kind, unit.weights.back()));
    }
    if (kind == UnitKind::kNvfp4) {
      GLINT_TRY(unit.input_scale, input_scale(unit.weights));
    }
    plan_.units.push_back(std::move(unit));
    return Ok{};
  }

  Status add_specs(UnitKind kind, const UnitWeight& weight) {
    std::vector<TensorSpec>& specs = plan_.specs;
    const std::int64_t rows = weight.rows, cols = weight.cols;
    const auto add = [&](const char* suffix, StoredType type, std::vector<std::int64_t> shape) {
      specs.push_back({weight.name + suffix, type, std::move(shape)});
    };
    if (kind == UnitKind::kDequantize) {
      add(".weight", StoredType::kBF16, {rows, cols});
    } else if (kind == UnitKind::kFp8) {
      add(".weight", StoredType::kF8E4M3, {rows, cols});
      add(".weight_scale_inv", StoredType::kF32, {fp8_blocks(rows), fp8_blocks(cols)});
    } else {
      if (cols % kNvfp4Group) {
        return invalid(str(weight.name, " has ", cols,
                           " inputs, no multiple of 16, as groups of nvfp4 need; --exclude it"));
      }
      const bool modelopt = recipe_.layout == Nvfp4Layout::kModelOpt;
      const std::vector<std::int64_t> scalar =
          modelopt ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{1};
      add(modelopt ? ".weight" : ".weight_packed", StoredType::kU8, {rows, cols / 2});
      add(".weight_scale", StoredType::kF8E4M3, {rows, cols / kNvfp4Group});
      add(modelopt ? ".weight_scale_2" : ".weight_global_scale", StoredType::kF32, scalar);
      add(modelopt ? ".input_scale" : ".input_global_scale", StoredType::kF32, scalar);
    }
    return Ok{};
  }

  Result<float> input_scale(const std::vector<UnitWeight>& weights) const {
    if (!ranges_) return recipe_.input_scale;
    float amax = 0;
    for (const UnitWeight& weight : weights) {
      const auto range = ranges_->find(weight.name);
      if (range == ranges_->end() || range->second.amax == 0) {
        return invalid(str("the calibration saw nothing of ", weight.name,
                           "; calibrate with more prompts, or leave it out with --exclude"));
      }
      amax = std::max(amax, range->second.amax);
    }
    const float scale = recipe_.headroom * amax / (6 * 448);
    // The inverse of others, which compressed-tensors stores, would be no number.
    if (std::isnormal(scale)) return scale;
    return invalid(str("the calibration of ", weights[0].name, " has an amax of ", amax,
                       ", which gives an input_scale of ", scale,
                       "; calibrate with other prompts, or leave it out with --exclude"));
  }

  static std::string without_weight(const std::string& name) {
    for (const std::string_view suffix : {".weight", ".weight_packed"}) {
      if (name.ends_with(suffix)) return name.substr(0, name.size() - suffix.size());
    }
    return {};
  }

  const ModelConfig& config_;
  const Recipe& recipe_;
  const std::vector<ModelTensor>& table_;
  const std::vector<bool>& quantized_;
  const ActivationRanges* ranges_;
  const Checkpoint& checkpoint_;
  std::unordered_map<std::string, Copy> copies_;
  std::unordered_map<std::string, std::vector<std::size_t>> stacks_;
  std::unordered_set<std::string> done_;  // second halves of pairs
  OutputPlan plan_;
};

}  // namespace

std::vector<std::size_t> OutputPlan::unit_begins() const {
  std::vector<std::size_t> begins;
  for (const Unit& unit : units) begins.push_back(unit.first_spec);
  return begins;
}

std::size_t specs_per_weight(UnitKind kind) {
  switch (kind) {
    case UnitKind::kFp8:
      return 2;
    case UnitKind::kNvfp4:
      return 4;
    case UnitKind::kCopy:
    case UnitKind::kDequantize:
      break;
  }
  return 1;
}

Result<OutputPlan> plan_output(const PlanInput& input, const Checkpoint& checkpoint) {
  return Planner(input, checkpoint).plan();
}

}  // namespace glint
