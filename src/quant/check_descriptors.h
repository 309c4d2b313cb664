// Whether the descriptors of a quantised checkpoint say what its tensors are, as engines read them:
// quantization_config of config.json, and ModelOpt's hf_quant_config.json.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/tensor_source.h"
#include "model/tensor_table.h"
#include "quant/check_output.h"

namespace glint {

struct DescribedWeights {
  const std::string& dir;
  const Json& config_json;
  const TensorSource& source;
  const std::vector<ModelTensor>& table;
  const std::vector<bool>& quantized;  // [table.size()]
  bool lies_beside = false;            // as add_descriptor_beside says
};

// Adds what is wrong to `out`. Fails on a file that is no JSON.
Status check_descriptors(const DescribedWeights& weights, OutputCheck& out);

// Sets the quantization_config of a config.json that has none from the hf_quant_config.json in
// `dir`, if there is one: as engines do, for ModelOpt wrote no other descriptor once. True if so.
Result<bool> add_descriptor_beside(const std::string& dir, Json& config_json);

// The quant_method of config.json ("modelopt", "fp8", "compressed-tensors"); empty if it has none.
std::string quant_method(const Json& config_json);

// Whether engines round the inputs of four-bit layers too, and so need an input scale of each.
bool rounds_inputs(const Json& config_json);

// A fault for the first few of `names`, and one for how many more there are.
void add_faults(const std::vector<std::string>& names, const std::string& what, OutputCheck& out);

}  // namespace glint
