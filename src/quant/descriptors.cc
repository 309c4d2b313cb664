#include "quant/descriptors.h"

#include <algorithm>

#include "base/json_text.h"
#include "base/str.h"
#include "model/release.h"
#include "quant/matchers.h"
#include "tensor/weight.h"

namespace glint {
namespace {

Json::Array to_array(const std::vector<std::string>& texts) {
  return Json::Array(texts.begin(), texts.end());
}

Json fp8_config(const Recipe& recipe, const std::vector<std::string>& excludes) {
  Json json = fp8_quantization_config(to_array(excludes));
  // Only if it is so: engines requantise what says ue8m0 and is not.
  if (recipe.fp8_scales == Fp8ScaleFormat::kUe8m0) json.set("scale_fmt", "ue8m0");
  return json;
}

Json compressed_tensors_config(const std::vector<std::string>& excludes) {
  constexpr const char* kFormat = "nvfp4-pack-quantized";
  const auto numbers = [](Json dynamic) {
    return Json::Object{{"num_bits", 4},
                        {"type", "float"},
                        {"strategy", "tensor_group"},
                        {"group_size", kNvfp4Group},
                        {"symmetric", true},
                        {"dynamic", std::move(dynamic)}};
  };
  const Json group = Json::Object{{"format", kFormat},
                                  {"input_activations", numbers("local")},
                                  {"output_activations", nullptr},
                                  {"weights", numbers(false)},
                                  {"targets", Json::Array{"Linear"}}};
  return Json::Object{{"quant_method", "compressed-tensors"},
                      {"format", kFormat},
                      {"config_groups", Json::Object{{"group_0", group}}},
                      {"ignore", to_array(excludes)},
                      {"kv_cache_scheme", nullptr},
                      {"quantization_status", "compressed"},
                      {"global_compression_ratio", nullptr}};
}

Status check_readable(const std::vector<std::string>& excludes,
                      const std::vector<ModelTensor>& table, const std::vector<bool>& quantized) {
  for (const ServingEngine engine : kServingEngines) {
    const auto misread = misread_modules(engine, excludes, table, quantized);
    if (misread.empty()) continue;
    return invalid(str(name_of(engine), " could not tell from a list of excluded modules that ",
                       misread[0],
                       " is treated unlike its like in other layers; choose the same "
                       "of every layer"));
  }
  return Ok{};
}

}  // namespace

Result<Descriptors> make_descriptors(const Json& config_json, const ModelConfig& config,
                                     const Recipe& recipe, const std::vector<ModelTensor>& table,
                                     const std::vector<bool>& quantized) {
  Descriptors out = {.config = config_json, .hf_quant_config = {}};
  std::erase_if(out.config.as_object(),
                [](const Json::Member& member) { return member.first == "quantization_config"; });
  leave_out_unused_layers(config, out.config);
  if (recipe.format == TargetFormat::kBf16) return out;
  const bool is_modelopt =
      recipe.format == TargetFormat::kNvfp4 && recipe.layout == Nvfp4Layout::kModelOpt;
  if (is_modelopt) {
    const std::vector<std::string> excludes = modelopt_excludes(config, table, quantized);
    GLINT_TRY_STATUS(check_readable(excludes, table, quantized));
    out.config.set("quantization_config", modelopt_quantization_config(to_array(excludes)));
    out.hf_quant_config = modelopt_hf_quant_config(to_array(excludes));
  } else if (recipe.format == TargetFormat::kNvfp4) {
    out.config.set("quantization_config", compressed_tensors_config(explicit_excludes(
                                              table, quantized, ExpertsEntry::kRegex)));
  } else {
    out.config.set("quantization_config",
                   fp8_config(recipe, explicit_excludes(table, quantized, ExpertsEntry::kName)));
  }
  return out;
}

std::vector<std::string> listed_excludes(const Json& descriptor) {
  const std::string* method = text_of(descriptor, "quant_method");
  const auto names_at = [&](const char* key) {
    std::vector<std::string> names;
    const Json* list = descriptor.find(key);
    if (!list || !list->is_array()) return names;
    for (const Json& entry : list->as_array()) {
      if (entry.is_string()) names.push_back(entry.as_string());
    }
    return names;
  };
  if (!method) return names_at("exclude_modules");
  if (*method != "fp8") return names_at("ignore");
  std::vector<std::string> ignored = names_at("ignored_layers");
  return ignored.empty() ? names_at("modules_to_not_convert") : ignored;
}

}  // namespace glint
