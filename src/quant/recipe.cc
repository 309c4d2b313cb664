#include "quant/recipe.h"

#include <map>

#include "base/glob.h"
#include "base/str.h"
#include "quant/matchers.h"

namespace glint {
namespace {

constexpr const char* kFormats[] = {"nvfp4", "fp8", "bf16"};
constexpr const char* kScopes[] = {"experts", "mlp", "all-linear"};
constexpr const char* kRules[] = {"search", "absmax", "four-over-six"};
constexpr const char* kLayouts[] = {"modelopt", "compressed-tensors"};
constexpr const char* kFp8Scales[] = {"fp32", "ue8m0"};
constexpr const char* kMtp[] = {"exclude", "convert"};

template <class Enum, std::size_t N>
const char* name_in(const char* const (&names)[N], Enum value) {
  return names[static_cast<std::size_t>(value)];
}

bool in_scope(const Recipe& recipe, const ModelTensor& tensor) {
  // The indexer decides which tokens attention sees. FP8 releases quantise it; in four bits it
  // would change that choice, so only a rule can ask for it.
  if (recipe.format == TargetFormat::kFp8 && recipe.scope == Scope::kAllLinear) return true;
  switch (tensor.role) {
    case TensorRole::kRoutedExpert:
      return true;
    case TensorRole::kSharedExpert:
    case TensorRole::kDenseMlp:
      return recipe.scope != Scope::kExperts;
    case TensorRole::kAttention:
      return recipe.scope == Scope::kAllLinear;
    default:
      return false;
  }
}

// Globs, each of which must match something.
class Globs {
 public:
  explicit Globs(const std::vector<std::string>& globs) : globs_(globs), used_(globs.size()) {}

  bool match(const std::string& name) {
    bool any = false;
    for (std::size_t i = 0; i < globs_.size(); ++i) {
      if (!glob_matches(globs_[i], name)) continue;
      used_[i] = any = true;
    }
    return any;
  }
  Status all_used(const char* option) const {
    for (std::size_t i = 0; i < globs_.size(); ++i) {
      if (used_[i]) continue;
      return invalid(str("--", option, " ", quoted(globs_[i]),
                         " matches no linear layer that can be quantised; names are like "
                         "model.layers.3.mlp.experts.0.gate_proj, and --mtp decides about the MTP "
                         "layer"));
    }
    return Ok{};
  }

 private:
  const std::vector<std::string>& globs_;
  std::vector<bool> used_;
};

// Names the matrix, or layer of experts, that engines load as one: quantised whole or not at all.
std::string fused_name(const ModelTensor& tensor) {
  if (tensor.num_experts) return str("the routed experts of layer ", tensor.layer);
  const auto pair = fused_pair(tensor.name);
  return pair ? str(pair->first, " and ", pair->second.substr(pair->second.rfind('.') + 1)) : "";
}

}  // namespace

Json to_json(const Recipe& recipe) {
  const auto list = [](const std::vector<std::string>& texts) {
    return Json::Array(texts.begin(), texts.end());
  };
  Json json = Json::Object{{"format", name_in(kFormats, recipe.format)}};
  if (recipe.format == TargetFormat::kBf16) return json;
  if (recipe.rules.empty()) {
    json.set("scope", name_in(kScopes, recipe.scope));
  } else {
    json.set("rules", list(recipe.rules));
  }
  json.set("exclude", list(recipe.excludes));
  json.set("mtp", name_in(kMtp, recipe.mtp));
  if (recipe.format == TargetFormat::kFp8) {
    json.set("scale_fmt", name_in(kFp8Scales, recipe.fp8_scales));
    return json;
  }
  json.set("scale", name_in(kRules, recipe.scale));
  json.set("power_of_two", recipe.power_of_two);
  json.set("layout", name_in(kLayouts, recipe.layout));
  json.set("headroom", double{recipe.headroom});
  json.set("input_scale", double{recipe.input_scale});
  return json;
}

Result<std::vector<bool>> choose_quantized(const Recipe& recipe, const ModelConfig& config,
                                           const std::vector<ModelTensor>& table) {
  Globs rules(recipe.rules), excludes(recipe.excludes);
  std::vector<bool> chosen(table.size());
  std::map<std::string, bool> first_of;  // what is decided about a fused matrix
  bool any = false;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const ModelTensor& tensor = table[i];
    if (!tensor.is_quantizable) continue;
    if (recipe.mtp == MtpChoice::kExclude && config.is_mtp(tensor.layer)) continue;
    const std::string fused = fused_name(tensor);
    for (int expert = 0; expert < tensor.num_copies(); ++expert) {
      const std::string name = tensor.name_of_copy(expert);
      bool take = recipe.rules.empty() ? in_scope(recipe, tensor) : rules.match(name);
      if (excludes.match(name)) take = false;
      chosen[i] = take;
      any = any || take;
      if (fused.empty() || first_of.emplace(fused, take).first->second == take) continue;
      return invalid(str("the rules quantise a part of ", fused,
                         " only; engines load these as one, so take all or none"));
    }
  }
  GLINT_TRY_STATUS(rules.all_used("rules"));
  GLINT_TRY_STATUS(excludes.all_used("exclude"));
  if (!any && !recipe.excludes.empty())
    return invalid("--exclude takes away all that was chosen; leave some of it");
  if (!any)
    return invalid(str("--scope ", name_in(kScopes, recipe.scope),
                       " is no layer of this model; give --scope all-linear"));
  return chosen;
}

}  // namespace glint
