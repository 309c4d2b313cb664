#include "quant/check_descriptors.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/contains.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/str.h"
#include "quant/descriptor_fields.h"
#include "quant/descriptors.h"
#include "quant/matchers.h"

namespace glint {
namespace {

std::set<std::string> as_set(const std::vector<std::string>& names) {
  return {names.begin(), names.end()};
}

class DescriptorChecker {
 public:
  DescriptorChecker(const DescribedWeights& in, OutputCheck& out) : in_(in), out_(out) {}

  Status check() {
    const Json* quantization = in_.config_json.find("quantization_config");
    const bool any = contains(in_.quantized, true);
    if (!quantization || !quantization->is_object()) {
      if (any) fault("config.json has no quantization_config, but weights are quantised");
      return Ok{};
    }
    if (!any) {
      fault("config.json has a quantization_config, but no weight is quantised");
      return Ok{};
    }
    const std::string name = quant_method(in_.config_json);
    const FoundFormats found = find_formats(in_.source, out_.tensors);
    if (!name.starts_with(found.names_of)) {
      fault(str("the quant_method of config.json is ", quoted(name),
                ", but the tensors have the names of nvfp4 by ", found.names_of));
      return Ok{};
    }
    const std::vector<std::string> excludes = listed_excludes(*quantization);
    if (name.starts_with("modelopt")) return check_modelopt(*quantization, found, excludes);
    check_fields(quantization, found, nullptr);
    if (name == "fp8") {
      check_fp8(*quantization, excludes);
    } else if (name == "compressed-tensors") {
      check_compressed_tensors(*quantization, excludes);
    } else {
      fault(str("the quant_method of config.json is ", quoted(name),
                "; expected modelopt, fp8 or compressed-tensors"));
    }
    return Ok{};
  }

 private:
  void fault(std::string sentence) { out_.faults.push_back(std::move(sentence)); }
  void faults(const std::vector<std::string>& names, const std::string& what) {
    add_faults(names, what, out_);
  }

  void check_fields(const Json* quantization, const FoundFormats& found, const Json* hf) {
    for (std::string& sentence : faulty_fields(found, quantization, hf)) fault(std::move(sentence));
  }

  Status check_modelopt(const Json& described, const FoundFormats& found,
                        const std::vector<std::string>& excludes) {
    check_read_by_engines(excludes);
    const std::string path = in_.dir + "/hf_quant_config.json";
    if (!file_exists(path)) {
      fault("hf_quant_config.json is missing, which TensorRT-LLM and older engines read");
      check_fields(&described, found, nullptr);
      return Ok{};
    }
    GLINT_TRY(const Json json, read_json_file(path));
    const Json* quantization = json.find("quantization");
    check_fields(in_.lies_beside ? nullptr : &described, found, quantization);
    const std::string* algo = quantization ? text_of(*quantization, "quant_algo") : nullptr;
    const bool has_groups = algo && lower(*algo).find("nvfp4") != algo->npos;
    if (!algo || !quantization->find("kv_cache_quant_algo") ||
        (has_groups && !quantization->find("group_size"))) {
      fault("hf_quant_config.json lacks quant_algo, kv_cache_quant_algo or group_size");
      return Ok{};
    }
    if (as_set(listed_excludes(*quantization)) != as_set(excludes)) {
      fault("hf_quant_config.json and config.json list different modules");
    }
    return Ok{};
  }

  void check_read_by_engines(const std::vector<std::string>& excludes) {
    if (excludes.empty()) fault("no module is excluded, not even the routers");
    for (const ServingEngine engine : kServingEngines) {
      tell_misread(engine, misread_modules(engine, excludes, in_.table, in_.quantized));
    }
  }

  void tell_misread(ServingEngine engine, const std::vector<std::string>& modules) {
    faults(modules, str("is taken for the opposite of what it is by ", name_of(engine),
                        ", from the list of excluded modules"));
  }

  // Routers, embeddings and the like are never FP8 in the engines, listed or not.
  void check_fp8(const Json& quantization, const std::vector<std::string>& excludes) {
    const Json* block = find_field(quantization, "weight_block_size");
    const auto tensors = in_.source.tensors();
    const bool in_blocks = std::any_of(tensors.begin(), tensors.end(), [](const auto& tensor) {
      return tensor.name.ends_with("_scale_inv");
    });
    if (block ? *block != Json(Json::Array{kFp8Block, kFp8Block}) : in_blocks) {
      fault("the weight_block_size of config.json is not [128, 128]");
    }
    for (const ServingEngine engine : kServingEngines) {
      std::vector<std::string> misread;
      for (const EngineModule& module : engine_modules(engine, in_.table)) {
        const std::size_t first = module.tensors[0];
        if (!in_.table[first].is_quantizable) continue;
        if (engine_excludes_fp8(engine, excludes, module.name) == in_.quantized[first]) {
          misread.push_back(module.name);
        }
      }
      tell_misread(engine, misread);
    }
    const std::string* scales = text_of(quantization, "scale_fmt");
    if (scales && *scales == "ue8m0") check_ue8m0();
  }

  void check_ue8m0() {
    std::vector<std::string> bad;
    for (const StoredTensor& tensor : in_.source.tensors()) {
      if (!tensor.name.ends_with("_scale_inv") || tensor.type != StoredType::kF32) continue;
      for (std::size_t at = 0; at + 4 <= tensor.bytes.size(); at += 4) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, tensor.bytes.data() + at, sizeof bits);
        if ((bits & 0x807fffffu) == 0) continue;
        bad.push_back(tensor.name);
        break;
      }
    }
    faults(bad, "has a scale that is no power of two, though config.json says ue8m0");
  }

  // Other quantisers than ours choose modules by any regular expression, which is not read here.
  void check_compressed_tensors(const Json& quantization,
                                const std::vector<std::string>& excludes) {
    std::vector<std::string> expected =
        explicit_excludes(in_.table, in_.quantized, ExpertsEntry::kRegex);
    std::sort(expected.begin(), expected.end());
    const auto is_foreign = [&](const std::string& entry) {
      return entry.starts_with("re:") &&
             !std::binary_search(expected.begin(), expected.end(), entry);
    };
    if (std::any_of(excludes.begin(), excludes.end(), is_foreign) || !targets_all(quantization)) {
      out_.unchecked.push_back(
          "which modules the lists of config.json mean: they hold regular expressions");
      return;
    }
    check_listed_one_by_one(excludes, expected);
  }

  // True if every group is for all linear layers, so that the list of exceptions says it all.
  static bool targets_all(const Json& quantization) {
    const Json* groups = quantization.find("config_groups");
    if (!groups || !groups->is_object()) return true;
    const Json all(Json::Array{"Linear"});
    return std::all_of(groups->as_object().begin(), groups->as_object().end(),
                       [&](const Json::Member& group) {
                         const Json* targets = group.second.find("targets");
                         return !targets || *targets == all;
                       });
  }

  void check_listed_one_by_one(const std::vector<std::string>& excludes,
                               const std::vector<std::string>& expected) {
    std::vector<std::string> listed = excludes, missing, wrong;
    std::sort(listed.begin(), listed.end());
    std::set_difference(expected.begin(), expected.end(), listed.begin(), listed.end(),
                        std::back_inserter(missing));
    std::erase_if(missing, [&](const std::string& name) { return is_no_linear_layer(name); });
    faults(missing, "is not quantised, but is missing from the list in config.json");
    for (std::size_t i = 0; i < in_.table.size(); ++i) {
      if (in_.quantized[i] && std::binary_search(listed.begin(), listed.end(), in_.table[i].name)) {
        wrong.push_back(in_.table[i].name);
      }
    }
    faults(wrong, "is quantised, but is in the list of config.json");
  }

  // Embeddings and routers are none to transformers, so quantisers of its models do not list them.
  bool is_no_linear_layer(const std::string& name) const {
    return std::any_of(in_.table.begin(), in_.table.end(), [&](const ModelTensor& tensor) {
      const bool is_one =
          tensor.role != TensorRole::kEmbedding && tensor.role != TensorRole::kRouter;
      return tensor.name == name && !is_one;
    });
  }

  const DescribedWeights& in_;
  OutputCheck& out_;
};

}  // namespace

void add_faults(const std::vector<std::string>& names, const std::string& what, OutputCheck& out) {
  constexpr std::size_t kMaxNamed = 5;
  for (std::size_t i = 0; i < std::min(kMaxNamed, names.size()); ++i) {
    out.faults.push_back(str(names[i], " ", what));
  }
  if (names.size() > kMaxNamed) {
    out.faults.push_back(str(names.size() - kMaxNamed, " more like it: ", what));
  }
}

Result<bool> add_descriptor_beside(const std::string& dir, Json& config_json) {
  const Json* described = config_json.find("quantization_config");
  const std::string path = dir + "/hf_quant_config.json";
  if ((described && !described->is_null()) || !file_exists(path)) return false;
  GLINT_TRY(const Json json, read_json_file(path));
  const Json* quantization = json.find("quantization");
  if (!quantization || !quantization->is_object()) return false;
  Json found = *quantization;
  found.set("quant_method", "modelopt");
  if (const Json* excludes = quantization->find("exclude_modules")) found.set("ignore", *excludes);
  config_json.set("quantization_config", std::move(found));
  return true;
}

std::string quant_method(const Json& config_json) {
  const Json* quantization = config_json.find("quantization_config");
  const std::string* method = quantization ? text_of(*quantization, "quant_method") : nullptr;
  return method ? *method : "";
}

bool rounds_inputs(const Json& config_json) {
  const Json* quantization = config_json.find("quantization_config");
  if (!quantization) return true;
  const std::string* algo = text_of(*quantization, "quant_algo");
  if (algo && lower(*algo).starts_with("w4a16")) return false;
  const Json* groups = quantization->find("config_groups");
  if (!groups || !groups->is_object()) return true;
  return std::any_of(groups->as_object().begin(), groups->as_object().end(),
                     [](const Json::Member& group) {
                       const Json* inputs = group.second.find("input_activations");
                       const Json* bits = inputs ? inputs->find("num_bits") : nullptr;
                       return bits && *bits == Json(4);
                     });
}

Status check_descriptors(const DescribedWeights& weights, OutputCheck& out) {
  return DescriptorChecker(weights, out).check();
}

}  // namespace glint
