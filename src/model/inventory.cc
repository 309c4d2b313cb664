#include "model/inventory.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_map>

#include "base/str.h"

namespace glint {
namespace {

// Suffixes after the name of a matrix, and suffixes of tensors that are not needed: activation
// scales of calibrated models, KV scales, shapes of packed tensors.
constexpr std::string_view kWeightSuffixes[] = {
    ".weight",         ".weight_packed",       ".weight_scale", ".weight_scale_inv",
    ".weight_scale_2", ".weight_global_scale", "_scale_inv"};
constexpr std::string_view kIgnoredSuffixes[] = {
    ".input_scale", ".input_global_scale", ".output_scale",       ".k_scale",
    ".v_scale",     ".weight_shape",       ".rotary_emb.inv_freq"};

std::vector<ModelTensor> tensors_in_use(ModelConfig config, const Checkpoint& checkpoint) {
  keep_own_head(config, checkpoint);
  return model_tensors(std::move(config), checkpoint.source());
}

class Taker {
 public:
  Taker(const ModelConfig& config, Checkpoint& checkpoint)
      : config_(config), checkpoint_(checkpoint), table_(tensors_in_use(config, checkpoint)) {}

  // Without `look`, of the checkpoint's names only what nothing uses.
  Result<Inventory> take(bool look) {
    std::int64_t num_weights = 0;
    for (const ModelTensor& tensor : table_) num_weights += tensor.num_copies();
    if (num_weights > kMaxTensors) {
      return invalid(
          str("the config implies ", num_weights, " tensors; expected at most ", kMaxTensors));
    }
    inventory_.has_mtp = holds_mtp_layer(config_, checkpoint_.source());
    for (const ModelTensor& tensor : table_) {
      for (int expert = 0; expert < tensor.num_copies(); ++expert) {
        const std::string name = tensor.name_of_copy(expert);
        enter(tensor, name, look ? look_for(tensor, name) : nullptr);
      }
      if (config_.is_mtp(tensor.layer)) continue;
      inventory_.num_main_missing = inventory_.missing.size();
      inventory_.num_main_faults = inventory_.faults.size();
    }
    for (const StoredTensor& tensor : checkpoint_.source().tensors()) classify(tensor);
    for (auto& [key, row] : rows_) inventory_.rows.push_back(std::move(row));
    return std::move(inventory_);
  }

 private:
  using Row = Inventory::Row;

  Row& row(TensorRole role, const std::string& format) {
    Row& row = rows_[{role, format}];
    row.role = role;
    row.format = format;
    return row;
  }

  // The row that it counts in; null: it is missing or faulty.
  Row* look_for(const ModelTensor& tensor, const std::string& name) {
    if (!(tensor.is_matrix() ? checkpoint_.has_weight(name) : checkpoint_.has(name))) {
      inventory_.missing.push_back(name);
      return nullptr;
    }
    const Result<std::string> format = format_of(tensor, name);
    checkpoint_.release_copies();
    Row* found = nullptr;
    if (format.ok()) {
      found = &row(tensor.role, format.value());
      ++found->tensors;
      found->parameters += tensor.elements();
    } else if (auto& faults = inventory_.faults;
               faults.empty() || faults.back() != format.error().message) {
      faults.push_back(format.error().message);  // once for all experts of a stack
    }
    return found;
  }

  void enter(const ModelTensor& tensor, const std::string& name, Row* found) {
    row_of_[name] = found;
    if (tensor.num_experts) row_of_[stack_of_experts(name)] = found;
  }

  Result<std::string> format_of(const ModelTensor& tensor, const std::string& name) {
    if (tensor.is_matrix()) {
      GLINT_TRY(const WeightFormat format, checkpoint_.format(name, tensor.rows, tensor.cols));
      return stored_format(checkpoint_.stored_weight(name), name_of(format));
    }
    GLINT_TRY(const Tensor vector, checkpoint_.vector(name, tensor.cols));
    return stored_format(checkpoint_.source().find(name),
                         vector.dtype == DType::kF32 ? "f32" : "bf16");
  }

  // The stored format, where the loader widens it to f32.
  static std::string stored_format(const StoredTensor* stored, const char* handed_out) {
    if (stored && stored->type == StoredType::kF16) return "f16";
    if (stored && stored->type == StoredType::kF8E4M3) return "fp8";
    return handed_out;
  }

  // The row that the bytes of a stored tensor count in: none if it is no part of a weight, null if
  // that weight is faulty.
  std::optional<Row*> owner(const std::string& name) const {
    if (const auto at = row_of_.find(name); at != row_of_.end()) return at->second;
    for (const std::string_view suffix : kWeightSuffixes) {
      if (!name.ends_with(suffix)) continue;
      const auto at = row_of_.find(name.substr(0, name.size() - suffix.size()));
      if (at != row_of_.end()) return at->second;
    }
    return {};
  }

  void classify(const StoredTensor& tensor) {
    const auto bytes = static_cast<std::int64_t>(tensor.bytes.size());
    inventory_.bytes += bytes;
    if (const auto row = owner(tensor.name)) {
      if (*row) (*row)->bytes += bytes;
    } else if (is_ignorable(tensor.name)) {
      inventory_.ignored.push_back(tensor.name);
    } else {
      inventory_.extra.push_back(tensor.name);
    }
  }

  bool is_ignorable(const std::string& name) const {
    for (const std::string_view suffix : kIgnoredSuffixes) {
      if (name.ends_with(suffix)) return true;
    }
    constexpr std::string_view kLayers = "model.layers.";
    if (!name.starts_with(kLayers)) return false;
    int layer = -1;
    const char* end = name.data() + name.size();
    const auto number = std::from_chars(name.data() + kLayers.size(), end, layer);
    const int num_layers = config_.num_layers_with_mtp();
    if (layer < 0 || layer >= num_layers + config_.num_unused_mtp_layers) return false;
    if (layer >= num_layers) return true;
    const std::string_view rest(number.ptr, end);
    // Copies of the model's own, as DeepSeek ships them, maybe quantised.
    if (config_.is_mtp(layer)) {
      return rest.starts_with(".embed_tokens.weight") ||
             rest.starts_with(".shared_head.head.weight");
    }
    return !config_.layers[static_cast<std::size_t>(layer)].has_indexer &&
           rest.starts_with(".self_attn.indexer.");
  }

  const ModelConfig& config_;
  Checkpoint& checkpoint_;
  const std::vector<ModelTensor> table_;
  Inventory inventory_;
  std::map<std::pair<TensorRole, std::string>, Row> rows_;
  // By the name of a weight, and of a stack of experts.
  std::unordered_map<std::string, Row*> row_of_;
};

}  // namespace

void keep_own_head(ModelConfig& config, const Checkpoint& checkpoint) {
  if (checkpoint.has_weight("lm_head")) config.tie_word_embeddings = false;
}

Status Inventory::check_complete(const std::string& name, bool with_mtp) const {
  if ((with_mtp ? faults.size() : num_main_faults) > 0) return invalid(faults[0]);
  const std::size_t count = with_mtp ? missing.size() : num_main_missing;
  if (count == 0) return Ok{};
  const std::string more = count > 1 ? str(", and ", count - 1, " more") : "";
  return invalid(str(name, ": tensor ", quoted(missing[0], 400), " is missing", more,
                     "; the model needs every one"));
}

std::map<std::string, std::int64_t> Inventory::bytes_by_format() const {
  std::map<std::string, std::int64_t> bytes_of;
  for (const Row& row : rows) bytes_of[row.format] += row.bytes;
  return bytes_of;
}

bool holds_mtp_layer(const ModelConfig& config, const TensorSource& source) {
  const std::string prefix = str("model.layers.", config.num_hidden_layers, ".");
  const auto is_its_own = [&](const StoredTensor& tensor) {
    const std::string_view name = tensor.name;
    if (!name.starts_with(prefix)) return false;
    // The other names are those of any layer: of the model, where the config has too few.
    const std::string_view rest = name.substr(prefix.size());
    return rest.starts_with("eh_proj.") || rest.starts_with("enorm.") || rest.starts_with("hnorm.");
  };
  return config.num_nextn_predict_layers > 0 && std::ranges::any_of(source.tensors(), is_its_own);
}

std::vector<ModelTensor> model_tensors(ModelConfig config, const TensorSource& source) {
  if (!holds_mtp_layer(config, source)) config.num_nextn_predict_layers = 0;
  return model_tensors(config);
}

Result<Inventory> take_inventory(const ModelConfig& config, Checkpoint& checkpoint) {
  return Taker(config, checkpoint).take(true);
}

Result<std::vector<std::string>> unused_tensors(const ModelConfig& config, Checkpoint& checkpoint) {
  GLINT_TRY(Inventory inventory, Taker(config, checkpoint).take(false));
  return std::move(inventory.extra);
}

std::string describe_unused(const std::string& dir, const std::vector<std::string>& unused,
                            std::string_view fate) {
  if (unused.empty()) return "";
  return str(dir, " holds ", counted(std::ssize(unused), "tensor"),
             " for which its config.json has no place, the first ", quoted(unused[0], 200), ": ",
             fate, "; `glint inspect` lists them");
}

}  // namespace glint
