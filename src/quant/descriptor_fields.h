// Whether the fields of a descriptor that name number formats say those that the tensors have.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "quant/check_output.h"

namespace glint {

// Formats of the matrices of a checkpoint.
struct FoundFormats {
  bool nvfp4 = false, fp8 = false;
  bool input_scales = false;  // any
  bool cache_scales = false;  // k_scale or v_scale, of any layer
  std::string names_of = {};  // the quant_method whose names NVFP4 has here; empty: there is none
};
FoundFormats find_formats(const TensorSource& source, const std::vector<CheckedTensor>& tensors);

// The member of `object` at names with dots between; null if there is none, or a null.
const Json* find_field(const Json& object, const char* path);

// A fault for each field with another value than the tensors have, and for each that is left out
// though engines refuse to start without it. Either descriptor may be null: quantization_config of
// config.json, quantization of hf_quant_config.json.
std::vector<std::string> faulty_fields(const FoundFormats& found, const Json* quantization_config,
                                       const Json* hf_quantization);

}  // namespace glint
