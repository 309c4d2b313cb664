// Recipe: what a quantisation does to a model, as the user asked for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/tensor_table.h"

namespace glint {

enum class TargetFormat : std::uint8_t { kNvfp4, kFp8, kBf16 };
enum class Scope : std::uint8_t { kExperts, kMlp, kAllLinear };
enum class ScaleRule : std::uint8_t { kSearch, kAbsmax, kFourOverSix };
enum class Nvfp4Layout : std::uint8_t { kModelOpt, kCompressedTensors };
enum class Fp8ScaleFormat : std::uint8_t { kFp32, kUe8m0 };
enum class MtpChoice : std::uint8_t { kExclude, kConvert };

struct Recipe {
  TargetFormat format = TargetFormat::kNvfp4;
  Scope scope = Scope::kExperts;           // unless there are rules
  std::vector<std::string> rules = {};     // globs over names of linear layers; empty: by scope
  std::vector<std::string> excludes = {};  // globs, taken away from what scope or rules chose
  MtpChoice mtp = MtpChoice::kExclude;

  ScaleRule scale = ScaleRule::kSearch;  // NVFP4 from here
  bool power_of_two = true;              // weight_scale_2
  Nvfp4Layout layout = Nvfp4Layout::kModelOpt;
  float headroom = 2;     // input_scale = headroom * calibrated amax / (6 * 448)
  float input_scale = 1;  // of what is not calibrated

  Fp8ScaleFormat fp8_scales = Fp8ScaleFormat::kFp32;
};

// Everything that decides the bytes of the result, with names: for manifests.
Json to_json(const Recipe& recipe);

// Which tensors of `table` (model_tensors) become quantised; [table.size()]. Only linear layers
// that a published FP8 checkpoint quantises can be. Fails if a rule or an exclusion matches none of
// them, if nothing is left, or if what engines load as one matrix (gate and up, q_a and kv_a, the
// experts of a layer) would be cut in two.
Result<std::vector<bool>> choose_quantized(const Recipe& recipe, const ModelConfig& config,
                                           const std::vector<ModelTensor>& table);

}  // namespace glint
