#include "quant/descriptor_fields.h"

#include <algorithm>
#include <span>

#include "base/glob.h"
#include "base/json_text.h"
#include "base/str.h"
#include "checkpoint/tensor_source.h"

namespace glint {
namespace {

// Values of a field with | between, as texts or globs, that say NVFP4 and that say FP8; empty if
// all do. The first is what `glint quantize` writes. vLLM does not start without what is required.
struct Rule {
  const char* method;
  const char* field;
  const char* nvfp4;
  const char* fp8;
  bool is_required = false;
};

constexpr const char* kAnyMethod = "";
constexpr Rule kRules[] = {
    {"modelopt", "quant_algo", "NVFP4|W4A16_NVFP4|MIXED_PRECISION",
     "FP8|FP8_PER_CHANNEL_PER_TOKEN|FP8_PB_WO|MIXED_PRECISION", true},
    {"modelopt", "group_size", "16", ""},
    {"compressed-tensors", "format", "nvfp4-pack-quantized|mixed-precision",
     "float-quantized|naive-quantized|mixed-precision"},
    {"fp8", "fmt", "", "e4m3|*e4m3*"},
    {"fp8", "activation_scheme", "", "dynamic|static", true},
};
// Fields of a member of config_groups.
constexpr Rule kGroupRules[] = {
    {"compressed-tensors", "targets", "", "", true},
    {"compressed-tensors", "weights", "", "", true},
    {kAnyMethod, "format", "nvfp4-pack-quantized", "float-quantized|naive-quantized"},
    {kAnyMethod, "weights.type", "float", "float"},
    {kAnyMethod, "weights.group_size", "16", ""},
    {kAnyMethod, "weights.strategy", "tensor_group|group", ""},
    {kAnyMethod, "weights.symmetric", "true", "true"},
    {kAnyMethod, "weights.dynamic", "false", "false"},
    {kAnyMethod, "input_activations.num_bits", "4|8", "8"},
    {kAnyMethod, "input_activations.type", "float", "float"},
    {kAnyMethod, "input_activations.group_size", "16", ""},
};

std::string text_of_value(const Json& value) {
  return value.is_string() ? value.as_string() : dump_json(value, JsonStyle::kCompact);
}

std::vector<std::string_view> values_of(const Rule& rule, const FoundFormats& formats) {
  std::vector<std::string_view> values;
  for (const auto& [found, list] :
       {std::pair(formats.nvfp4, rule.nvfp4), std::pair(formats.fp8, rule.fp8)}) {
    if (!found || !*list) continue;
    const std::vector<std::string_view> more = split(list, '|');
    if (values.empty()) {
      values = more;
      continue;
    }
    std::erase_if(values, [&](std::string_view value) {
      return std::find(more.begin(), more.end(), value) == more.end();
    });
  }
  return values;
}

class FieldChecker {
 public:
  explicit FieldChecker(const FoundFormats& found) : found_(found) {}

  std::vector<std::string> check(const Json* config, const Json* hf) {
    if (config) check_config(*config);
    if (hf) check_hf(config, *hf);
    return std::move(faults_);
  }

 private:
  static std::string formats_of(const FoundFormats& formats) {
    if (formats.nvfp4 && formats.fp8) return "nvfp4 and fp8";
    return formats.nvfp4 ? "nvfp4" : "fp8";
  }

  void expect(const std::string& place, const Json& object, const Rule& rule,
              const FoundFormats& formats) {
    const Json* value = find_field(object, rule.field);
    const std::vector<std::string_view> values = values_of(rule, formats);
    if (!value || values.empty()) return;
    const std::string text = text_of_value(*value);
    const bool ignores_case = rule.field == std::string_view("quant_algo");
    const bool fits = std::any_of(values.begin(), values.end(), [&](std::string_view glob) {
      return glob_matches(glob, text) || (ignores_case && lower(glob) == lower(text));
    });
    if (fits) return;
    faults_.push_back(str(place, ".", rule.field, " is ", value->is_string() ? quoted(text) : text,
                          ", but the weights are ", formats_of(formats), "; expected ", values[0]));
  }

  void require(const std::string& place, const Json& object, const Rule& rule) {
    if (!rule.is_required || find_field(object, rule.field)) return;
    const std::vector<std::string_view> values = values_of(rule, found_);
    faults_.push_back(str(place, ".", rule.field, " is missing, without which engines do not start",
                          values.empty() ? "" : str("; expected ", values[0])));
  }

  void check_config(const Json& config) {
    const std::string* named = text_of(config, "quant_method");
    if (!named) return;
    const std::string& method = *named;
    const std::string place = "config.json: quantization_config";
    for (const Rule& rule : kRules) {
      if (!method.starts_with(rule.method)) continue;
      require(place, config, rule);
      expect(place, config, rule, found_);
    }
    if (method == "fp8") check_activation_scheme(place, config);
    check_groups(place + ".config_groups", config.find("config_groups"), method);
  }

  void check_activation_scheme(const std::string& place, const Json& config) {
    const std::string* scheme = text_of(config, "activation_scheme");
    if (!scheme || *scheme != "static") return;
    const bool in_blocks = find_field(config, "weight_block_size");
    if (!in_blocks && found_.input_scales) return;
    faults_.push_back(str(place, ".activation_scheme is \"static\", but ",
                          in_blocks ? "engines take no such with a weight_block_size"
                                    : "no weight has an input_scale",
                          "; expected dynamic"));
  }

  void check_groups(const std::string& place, const Json* groups, const std::string& method) {
    FoundFormats described;
    bool fits = true;
    if (groups && groups->is_object()) {
      for (const auto& [name, group] : groups->as_object()) {
        fits &= check_group(str(place, ".", name), group, method, described);
      }
    }
    if (method != "compressed-tensors" || !fits) return;  // told
    const auto tell = [&](const char* format, int bits) {
      faults_.push_back(
          str(place, " has no group with num_bits ", bits, ", but weights are ", format));
    };
    if (found_.nvfp4 && !described.nvfp4) tell("nvfp4", 4);
    if (found_.fp8 && !described.fp8) tell("fp8", 8);
  }

  // Adds what the group is for to `described`. False if no weights have its number of bits.
  bool check_group(const std::string& place, const Json& group, const std::string& method,
                   FoundFormats& described) {
    for (const Rule& rule : kGroupRules) {
      if (method == rule.method) require(place, group, rule);
    }
    FoundFormats formats = found_;
    if (const Json* bits = find_field(group, "weights.num_bits")) {
      formats.nvfp4 = found_.nvfp4 && *bits == Json(4);
      formats.fp8 = found_.fp8 && *bits == Json(8);
      if (!formats.nvfp4 && !formats.fp8) {
        expect(place, group, {kAnyMethod, "weights.num_bits", "4", found_.nvfp4 ? "" : "8"},
               found_);
        return false;
      }
    }
    described.nvfp4 |= formats.nvfp4;
    described.fp8 |= formats.fp8;
    for (const Rule& rule : kGroupRules) expect(place, group, rule, formats);
    return true;
  }

  void check_hf(const Json* config, const Json& hf) {
    const std::string place = "hf_quant_config.json: quantization";
    for (const Rule& rule : kRules) {
      if (rule.method == std::string_view("modelopt")) expect(place, hf, rule, found_);
    }
    if (!config) return;
    const std::string* algo = text_of(hf, "quant_algo");
    const std::string* same = text_of(*config, "quant_algo");
    if (faults_.empty() && algo && same && lower(*algo) != lower(*same)) {
      faults_.push_back(str(place, ".quant_algo is ", quoted(*algo),
                            ", but that of config.json is ", quoted(*same)));
    }
    const std::string* cache = text_of(hf, "kv_cache_quant_algo");
    if (cache && !find_field(*config, "kv_cache_scheme") &&
        !find_field(*config, "kv_cache_quant_algo") && !found_.cache_scales) {
      faults_.push_back(str(place, ".kv_cache_quant_algo is ", quoted(*cache),
                            ", but config.json has no kv_cache_scheme, and no layer a k_scale; "
                            "expected null"));
    }
  }

  const FoundFormats& found_;
  std::vector<std::string> faults_;
};

}  // namespace

FoundFormats find_formats(const TensorSource& source, const std::vector<CheckedTensor>& tensors) {
  FoundFormats found;
  for (const CheckedTensor& tensor : tensors) {
    found.nvfp4 |= tensor.format == WeightFormat::kNvfp4;
    found.fp8 |= tensor.format == WeightFormat::kFp8Block;
    if (tensor.format != WeightFormat::kNvfp4) continue;
    found.names_of =
        source.find(tensor.name + ".weight_packed") ? "compressed-tensors" : "modelopt";
  }
  for (const StoredTensor& tensor : source.tensors()) {
    found.input_scales |= tensor.name.ends_with("input_scale");
    found.cache_scales |= tensor.name.ends_with(".k_scale") || tensor.name.ends_with(".v_scale");
  }
  return found;
}

const Json* find_field(const Json& object, const char* path) {
  const Json* at = &object;
  for (const std::string_view key : split(path, '.')) {
    if (at) at = at->find(key);
  }
  return at && !at->is_null() ? at : nullptr;
}

std::vector<std::string> faulty_fields(const FoundFormats& found, const Json* quantization_config,
                                       const Json* hf_quantization) {
  return FieldChecker(found).check(quantization_config, hf_quantization);
}

}  // namespace glint
