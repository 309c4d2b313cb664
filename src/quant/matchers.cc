#include "quant/matchers.h"

#include <algorithm>
#include <map>

#include "base/contains.h"
#include "base/glob.h"
#include "base/str.h"

namespace glint {
namespace {

struct Fused {
  std::string_view first, second;  // last parts of the checkpoint's names
  std::string_view vllm, sglang;   // of the engines'
};
constexpr Fused kFused[] = {
    {"gate_proj", "up_proj", "gate_up_proj", "gate_up_proj"},
    {"q_a_proj", "kv_a_proj_with_mqa", "fused_qkv_a_proj", "fused_qkv_a_proj_with_mqa"}};

std::string_view parent_of(std::string_view name) { return name.substr(0, name.rfind('.')); }
std::string_view last_of(std::string_view name) { return name.substr(name.rfind('.') + 1); }
bool has_part(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

const Fused* find_fused(std::string_view last) {
  const auto* at = std::find_if(std::begin(kFused), std::end(kFused), [&](const Fused& fused) {
    return last == fused.first || last == fused.second;
  });
  return at == std::end(kFused) ? nullptr : at;
}

std::string experts_of(const ModelTensor& tensor) {
  return str("model.layers.", tensor.layer, ".mlp.experts");
}

std::string module_of(ServingEngine engine, const ModelTensor& tensor) {
  if (tensor.num_experts) return experts_of(tensor);
  const Fused* fused = find_fused(last_of(tensor.name));
  if (!fused) return tensor.name;
  return str(parent_of(tensor.name), ".",
             engine == ServingEngine::kVllm ? fused->vllm : fused->sglang);
}

enum class NameMatch : std::uint8_t { kWhole, kBetweenDots };

bool is_listed(std::span<const std::string> excludes, std::string_view name, NameMatch match) {
  if (match == NameMatch::kWhole) return contains(excludes, name);
  const std::string between = str(".", name, ".");
  return std::any_of(excludes.begin(), excludes.end(), [&](const std::string& entry) {
    return has_part(between, str(".", entry, "."));
  });
}

// The first rule of both engines: a module is skipped if its name is listed, a fused one if those
// of its parts are, experts if the name of any of them is.
bool is_skipped(std::span<const std::string> excludes, std::string_view module,
                NameMatch match = NameMatch::kWhole) {
  for (const Fused& fused : kFused) {
    if (last_of(module) != fused.vllm && last_of(module) != fused.sglang) continue;
    const std::string_view parent = parent_of(module);
    return is_listed(excludes, str(parent, ".", fused.first), match) &&
           is_listed(excludes, str(parent, ".", fused.second), match);
  }
  if (is_listed(excludes, module, match)) return true;
  return has_part(module, "experts") &&
         std::any_of(excludes.begin(), excludes.end(), [&](const std::string& entry) {
           return has_part(entry, "experts") && has_part(entry, module);
         });
}

bool vllm_excludes(std::span<const std::string> excludes, std::string_view module) {
  if (is_skipped(excludes, module)) return true;
  return std::any_of(excludes.begin(), excludes.end(), [&](const std::string& entry) {
    return has_part(module, entry) || glob_matches(entry, module);
  });
}

// SGLang makes a regular expression of an entry: a dot is a dot, a star is anything. Entries with
// other signs of expressions are not what quantisers write; they match nothing here.
bool sglang_matches(std::string_view entry, std::string_view text) {
  if (entry.find_first_of("?[](){}+|^$\\") != entry.npos) return false;
  return glob_matches(entry, text);
}

bool sglang_excludes(std::span<const std::string> excludes, std::string_view module) {
  if (is_skipped(excludes, module)) return true;
  constexpr std::string_view kParts[] = {"q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"};
  for (const std::string& entry : excludes) {
    if (sglang_matches(entry, module)) return true;
    for (const std::string_view part : split(module, '.')) {
      if (sglang_matches(entry, part)) return true;
    }
    // An entry that ends in one of these counts for every module that has it in its last part, of
    // any layer.
    const bool is_part = contains(kParts, last_of(entry));
    if (is_part && has_part(last_of(module), last_of(entry))) return true;
  }
  return false;
}

// Writes the entries of one layer.
class LayerExcludes {
 public:
  LayerExcludes(const std::vector<ModelTensor>& table, const std::vector<bool>& quantized,
                std::vector<std::string>& out)
      : table_(table), quantized_(quantized), out_(out) {}

  // "PREFIX*" if nothing below `prefix` is quantised, else the names of what is not. False if there
  // is nothing.
  bool add_subtree(const std::string& prefix) {
    bool exists = false, any = false;
    for_each_below(prefix, [&](std::size_t i) {
      exists = true;
      any = any || quantized_[i];
    });
    if (!exists) return false;
    if (!any) {
      out_.push_back(prefix + "*");
      return true;
    }
    const std::string indexer = prefix + ".indexer";
    const bool has_indexer = prefix.ends_with(".self_attn") && add_subtree(indexer);
    for_each_below(prefix, [&](std::size_t i) {
      if (quantized_[i] || (has_indexer && table_[i].name.starts_with(indexer))) return;
      add(table_[i].name);
      // As the engines call it, for those that do not know what it is made from.
      add(module_of(ServingEngine::kVllm, table_[i]));
      add(module_of(ServingEngine::kSglang, table_[i]));
    });
    return true;
  }

  void add(const std::string& entry) {
    if (!contains(out_, entry)) out_.push_back(entry);
  }

 private:
  template <class Fn>
  void for_each_below(const std::string& prefix, const Fn& fn) const {
    for (std::size_t i = 0; i < table_.size(); ++i) {
      if (table_[i].is_matrix() && table_[i].name.starts_with(prefix + ".")) fn(i);
    }
  }

  const std::vector<ModelTensor>& table_;
  const std::vector<bool>& quantized_;
  std::vector<std::string>& out_;
};

}  // namespace

std::optional<FusedPair> fused_pair(std::string_view name) {
  const Fused* fused = find_fused(last_of(name));
  if (!fused) return {};
  return FusedPair{str(parent_of(name), ".", fused->first),
                   str(parent_of(name), ".", fused->second)};
}

const char* name_of(ServingEngine engine) {
  return engine == ServingEngine::kVllm ? "vLLM" : "SGLang";
}

std::vector<EngineModule> engine_modules(ServingEngine engine,
                                         const std::vector<ModelTensor>& table) {
  std::vector<EngineModule> modules;
  std::map<std::string, std::size_t> at;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (!table[i].is_matrix() || table[i].role == TensorRole::kEmbedding) continue;
    const std::string name = module_of(engine, table[i]);
    const auto [known, is_new] = at.emplace(name, modules.size());
    if (is_new) modules.push_back({.name = name, .tensors = {}});
    modules[known->second].tensors.push_back(i);
  }
  return modules;
}

bool engine_excludes(ServingEngine engine, std::span<const std::string> excludes,
                     std::string_view module) {
  return engine == ServingEngine::kVllm ? vllm_excludes(excludes, module)
                                        : sglang_excludes(excludes, module);
}

bool engine_excludes_fp8(ServingEngine engine, std::span<const std::string> excludes,
                         std::string_view module) {
  return is_skipped(excludes, module,
                    engine == ServingEngine::kVllm ? NameMatch::kWhole : NameMatch::kBetweenDots);
}

std::vector<std::string> misread_modules(ServingEngine engine,
                                         std::span<const std::string> excludes,
                                         const std::vector<ModelTensor>& table,
                                         const std::vector<bool>& quantized) {
  std::vector<std::string> misread;
  for (const EngineModule& module : engine_modules(engine, table)) {
    const bool is_quantized = quantized[module.tensors[0]];
    if (engine_excludes(engine, excludes, module.name) == is_quantized) {
      misread.push_back(module.name);
    }
  }
  return misread;
}

std::vector<std::string> modelopt_excludes(const ModelConfig& config,
                                           const std::vector<ModelTensor>& table,
                                           const std::vector<bool>& quantized) {
  std::vector<std::string> out = {"lm_head", "model.embed_tokens", "model.layers.*.mlp.gate"};
  LayerExcludes excludes(table, quantized, out);
  for (int layer = 0; layer < config.num_layers_with_mtp(); ++layer) {
    const std::string prefix = str("model.layers.", layer);
    const bool any = std::any_of(table.begin(), table.end(), [&](const ModelTensor& tensor) {
      return tensor.layer == layer && quantized[static_cast<std::size_t>(&tensor - table.data())];
    });
    // Layer 7 must not be written "model.layers.7*", which is layer 70 as well; the last may.
    if (config.is_mtp(layer) && !any) {
      out.push_back(prefix + "*");
      continue;
    }
    excludes.add_subtree(prefix + ".self_attn");
    if (config.layers[static_cast<std::size_t>(layer)].is_dense()) {
      excludes.add_subtree(prefix + ".mlp");
    } else {
      excludes.add(prefix + ".mlp.gate");
      excludes.add_subtree(prefix + ".mlp.experts");
      excludes.add_subtree(prefix + ".mlp.shared_experts");
    }
    if (config.is_mtp(layer)) {
      excludes.add(prefix + ".eh_proj");
      excludes.add(prefix + ".embed_tokens");
      excludes.add(prefix + ".shared_head*");
    }
  }
  return out;
}

std::vector<std::string> explicit_excludes(const std::vector<ModelTensor>& table,
                                           const std::vector<bool>& quantized,
                                           ExpertsEntry experts) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (!table[i].is_matrix() || quantized[i]) continue;
    std::string entry = table[i].name;
    if (table[i].num_experts) {
      entry = experts == ExpertsEntry::kName
                  ? experts_of(table[i])
                  : str("re:model\\.layers\\.", table[i].layer, "\\.mlp\\.experts\\..*");
    }
    if (out.empty() || out.back() != entry) out.push_back(entry);
  }
  return out;
}

}  // namespace glint
