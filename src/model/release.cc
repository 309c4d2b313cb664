#include "model/release.h"

#include "base/str.h"

namespace glint {
namespace {

// Modules that stay BF16, as patterns of the kind that the descriptors use.
Json::Array unquantized_modules(const ModelConfig& config, Release release) {
  if (release == Release::kFp8) {
    return {"lm_head", "model.embed_tokens", "model.layers.*.mlp.gate$",
            "model.layers.*.self_attn.indexer.weights_proj$", "model.layers.*.eh_proj$"};
  }
  Json::Array modules = {"lm_head", "model.embed_tokens", "model.layers.*.self_attn*",
                         "model.layers.*.mlp.gate", "model.layers.*.mlp.shared_experts*"};
  for (int layer = 0; layer < config.num_layers_with_mtp(); ++layer) {
    if (config.is_mtp(layer)) {
      modules.push_back(str("model.layers.", layer, "*"));
    } else if (config.layers[static_cast<std::size_t>(layer)].is_dense()) {
      modules.push_back(str("model.layers.", layer, ".mlp*"));
    }
  }
  return modules;
}

Json::Object producer() { return {{"name", "glint"}, {"version", GLINT_VERSION}}; }

}  // namespace

const char* name_of(Release release) {
  switch (release) {
    case Release::kBF16:
      return "bf16";
    case Release::kFp8:
      return "fp8";
    case Release::kNvfp4:
      return "nvfp4";
  }
  return "?";
}

WeightFormat format_in(Release release, const ModelTensor& tensor, const ModelConfig& config) {
  if (release == Release::kFp8 && tensor.is_quantizable) return WeightFormat::kFp8Block;
  if (release == Release::kNvfp4 && tensor.num_experts && !config.is_mtp(tensor.layer)) {
    return WeightFormat::kNvfp4;
  }
  return WeightFormat::kBF16;
}

void append_specs(const ModelTensor& tensor, int expert, WeightFormat format,
                  std::vector<TensorSpec>& specs) {
  const std::string name = tensor.name_of_copy(expert);
  const std::int64_t rows = tensor.rows, cols = tensor.cols;
  if (!tensor.is_matrix()) {
    specs.push_back({name, tensor.is_f32 ? StoredType::kF32 : StoredType::kBF16, {cols}});
    return;
  }
  switch (format) {
    case WeightFormat::kF32:
      specs.push_back({name + ".weight", StoredType::kF32, {rows, cols}});
      return;
    case WeightFormat::kBF16:
      specs.push_back({name + ".weight", StoredType::kBF16, {rows, cols}});
      return;
    case WeightFormat::kFp8Block:
      specs.push_back({name + ".weight", StoredType::kF8E4M3, {rows, cols}});
      specs.push_back(
          {name + ".weight_scale_inv", StoredType::kF32, {fp8_blocks(rows), fp8_blocks(cols)}});
      return;
    case WeightFormat::kNvfp4:
      specs.push_back({name + ".weight", StoredType::kU8, {rows, cols / 2}});
      specs.push_back({name + ".weight_scale", StoredType::kF8E4M3, {rows, cols / kNvfp4Group}});
      specs.push_back({name + ".weight_scale_2", StoredType::kF32, {}});
      specs.push_back({name + ".input_scale", StoredType::kF32, {}});
      return;
  }
}

std::int64_t release_bytes(const ModelConfig& config, Release release, bool with_mtp) {
  std::int64_t bytes = 0;
  std::vector<TensorSpec> specs;
  for (const ModelTensor& tensor : model_tensors(config)) {
    if (config.is_mtp(tensor.layer) && !with_mtp) continue;
    specs.clear();
    append_specs(tensor, 0, format_in(release, tensor, config), specs);
    for (const TensorSpec& spec : specs) bytes += spec.bytes() * tensor.num_copies();
  }
  return bytes;
}

Json config_of_release(const Json& config_json, const ModelConfig& config, Release release) {
  Json json = config_json;
  std::erase_if(json.as_object(),
                [](const Json::Member& member) { return member.first == "quantization_config"; });
  const Json::Array excludes = unquantized_modules(config, release);
  if (release == Release::kFp8) json.set("quantization_config", fp8_quantization_config(excludes));
  if (release == Release::kNvfp4) {
    json.set("quantization_config", modelopt_quantization_config(excludes));
  }
  return json;
}

std::optional<Json> hf_quant_config(const ModelConfig& config, Release release) {
  if (release != Release::kNvfp4) return {};
  return modelopt_hf_quant_config(unquantized_modules(config, release));
}

Json modelopt_quantization_config(const Json::Array& excludes) {
  const Json numbers = Json::Object{
      {"dynamic", false}, {"num_bits", 4}, {"type", "float"}, {"group_size", kNvfp4Group}};
  const Json group = Json::Object{
      {"input_activations", numbers}, {"weights", numbers}, {"targets", Json::Array{"Linear"}}};
  return Json::Object{
      {"quant_method", "modelopt"}, {"quant_algo", "NVFP4"},
      {"group_size", kNvfp4Group},  {"config_groups", Json::Object{{"group_0", group}}},
      {"ignore", excludes},         {"producer", producer()}};
}

Json modelopt_hf_quant_config(const Json::Array& excludes) {
  const Json quantization = Json::Object{{"quant_algo", "NVFP4"},
                                         {"kv_cache_quant_algo", nullptr},
                                         {"group_size", kNvfp4Group},
                                         {"exclude_modules", excludes}};
  return Json::Object{{"producer", producer()}, {"quantization", quantization}};
}

Json fp8_quantization_config(const Json::Array& excludes) {
  return Json::Object{{"quant_method", "fp8"},
                      {"fmt", "e4m3"},
                      {"activation_scheme", "dynamic"},
                      {"weight_block_size", Json::Array{kFp8Block, kFp8Block}},
                      {"modules_to_not_convert", excludes}};
}

}  // namespace glint
