// A quantised checkpoint's description of itself, for the engines that load it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "quant/recipe.h"

namespace glint {

struct Descriptors {
  Json config;                          // config.json
  std::optional<Json> hf_quant_config;  // hf_quant_config.json, of the ModelOpt layout
};

// `config_json` is the source's, whose own quantization_config is replaced. Fails if the choice
// cannot be said in a way that both vLLM and SGLang read right.
Result<Descriptors> make_descriptors(const Json& config_json, const ModelConfig& config,
                                     const Recipe& recipe, const std::vector<ModelTensor>& table,
                                     const std::vector<bool>& quantized);

// The list of modules left unquantised, by the name under which engines look for it: in
// quantization_config of config.json that of its quant_method, in quantization of
// hf_quant_config.json, which has none, exclude_modules. Empty if there is no list.
std::vector<std::string> listed_excludes(const Json& descriptor);

}  // namespace glint
