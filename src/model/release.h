// Published checkpoints of each kind: which tensor is stored in which format, under which names,
// and the descriptors that other engines read.
#pragma once

#include <optional>
#include <vector>

#include "base/json.h"
#include "checkpoint/shard.h"
#include "model/tensor_table.h"
#include "tensor/weight.h"

namespace glint {

enum class Release : std::uint8_t {
  kBF16,
  kFp8,    // zai-org/GLM-5-FP8: all linear layers but eh_proj and the indexer's weights_proj
  kNvfp4,  // ModelOpt: routed experts alone, and not those of the MTP layer
};

const char* name_of(Release release);  // "bf16", "fp8", "nvfp4"

// The format of one matrix.
WeightFormat format_in(Release release, const ModelTensor& tensor, const ModelConfig& config);

// Appends what is stored for copy `expert` of `tensor`: its data and, where the format has them,
// its scales, in that order: an NVFP4 matrix has weight, weight_scale, weight_scale_2 and
// input_scale. A vector is BF16, the router's bias F32.
void append_specs(const ModelTensor& tensor, int expert, WeightFormat format,
                  std::vector<TensorSpec>& specs);

// Bytes of all weights of the release, without headers and descriptors.
std::int64_t release_bytes(const ModelConfig& config, Release release, bool with_mtp);

// `config_json` with the quantization_config of the release in place of its own.
Json config_of_release(const Json& config_json, const ModelConfig& config, Release release);

// The contents of hf_quant_config.json, which ModelOpt writes beside; none for the others.
std::optional<Json> hf_quant_config(const ModelConfig& config, Release release);

// The two descriptors of a ModelOpt NVFP4 checkpoint, and the one of FP8 in blocks, for any list of
// modules that stay as they are.
Json modelopt_quantization_config(const Json::Array& excludes);
Json modelopt_hf_quant_config(const Json::Array& excludes);
Json fp8_quantization_config(const Json::Array& excludes);

}  // namespace glint
