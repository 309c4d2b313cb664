#include "model/config.h"

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/str.h"
#include "model/field_reader.h"

namespace glint {
namespace {

// Far above any real model, and low enough that the bytes of all layers together fit in 63 bits and
// that no per-layer list can exhaust memory.
constexpr std::int64_t kMaxWidth = std::int64_t{1} << 18;
constexpr std::int64_t kMaxVocab = std::int64_t{1} << 24;
constexpr std::int64_t kMaxHeadDim = 4096;
constexpr std::int64_t kMaxHeads = 4096;
constexpr std::int64_t kMaxLayers = 1024;
constexpr std::int64_t kMaxExperts = 4096;
// f32 counts positions exactly up to here.
constexpr std::int64_t kMaxPositions = std::int64_t{1} << 24;

constexpr JsonLimits kJsonLimits = {.max_depth = 64, .max_values = 1'000'000};

int small_integer(FieldReader& fields, std::string_view key, std::int64_t min, std::int64_t max,
                  std::optional<std::int64_t> fallback = {}) {
  return static_cast<int>(fields.integer(key, min, max, fallback));
}

void expect(FieldReader& fields, bool holds, const std::string& problem) {
  if (!holds) fields.fail(problem);
}

// Names the architecture in the message about a missing model_type.
std::string of_architecture(const std::vector<std::string>& architectures) {
  return architectures.empty() ? "" : str(", architectures names ", quoted(architectures[0]));
}

void read_identity(FieldReader& fields, ModelConfig& config) {
  const std::vector<std::string> architectures = fields.texts("architectures");
  config.model_type = fields.text("model_type", "");
  const bool known_type = config.model_type == "glm_moe_dsa" || config.model_type == "deepseek_v32";
  const std::string found = config.model_type.empty()
                                ? "model_type is missing" + of_architecture(architectures)
                                : str("model_type is ", quoted(config.model_type));
  expect(fields, known_type,
         found + "; expected \"glm_moe_dsa\" (GLM-5, 5.1, 5.2) or \"deepseek_v32\"");
}

void read_widths(FieldReader& fields, ModelConfig& config) {
  config.vocab_size = fields.integer("vocab_size", 1, kMaxVocab);
  config.hidden_size = fields.integer("hidden_size", 1, kMaxWidth);
  config.intermediate_size = fields.integer("intermediate_size", 1, kMaxWidth);
  config.moe_intermediate_size = fields.integer("moe_intermediate_size", 1, kMaxWidth);
  config.max_position_embeddings = fields.integer("max_position_embeddings", 1, kMaxPositions);
  config.num_hidden_layers = small_integer(fields, "num_hidden_layers", 1, kMaxLayers);
  const int mtp_layers = small_integer(fields, "num_nextn_predict_layers", 0, kMaxLayers, 0);
  config.num_nextn_predict_layers = std::min(mtp_layers, 1);
  config.num_unused_mtp_layers = mtp_layers - config.num_nextn_predict_layers;
  config.rms_norm_eps = static_cast<float>(fields.number("rms_norm_eps", 1e-12, 1));
  expect(
      fields, fields.text("hidden_act", "silu") == "silu",
      str("hidden_act is ", quoted(fields.text("hidden_act", "")), "; only \"silu\" is supported"));
  config.tie_word_embeddings = fields.boolean("tie_word_embeddings", false);
}

void read_attention(FieldReader& fields, ModelConfig& config) {
  config.num_attention_heads = small_integer(fields, "num_attention_heads", 1, kMaxHeads);
  // MLA has no key or value heads: the number is checked for sanity and not used.
  fields.integer("num_key_value_heads", 1, kMaxHeads, 1);
  config.q_lora_rank = fields.integer("q_lora_rank", 1, kMaxWidth);
  config.kv_lora_rank = fields.integer("kv_lora_rank", 1, kMaxWidth);
  config.qk_nope_head_dim = fields.integer("qk_nope_head_dim", 1, kMaxHeadDim);
  config.qk_rope_head_dim = fields.integer("qk_rope_head_dim", 2, kMaxHeadDim);
  config.v_head_dim = fields.integer("v_head_dim", 1, kMaxHeadDim);
  const std::int64_t sum = config.qk_head_dim();
  const std::int64_t said = fields.integer("qk_head_dim", 1, 2 * kMaxHeadDim, sum);
  expect(fields, said == sum,
         str("qk_head_dim is ", said, " but qk_nope_head_dim + qk_rope_head_dim is ", sum));
  expect(fields, config.qk_rope_head_dim % 2 == 0,
         str("qk_rope_head_dim is ", config.qk_rope_head_dim, "; expected an even number"));
  expect(fields, !fields.boolean("attention_bias", false),
         "attention_bias is true; projections with a bias are not supported");
  expect(fields, fields.boolean("rope_interleave", true),
         "rope_interleave is false; only interleaved rotary pairs are supported in attention");
}

// Files that lack the key are told apart by values, because model_type is what gets patched.
bool is_glm(const FieldReader& fields, const ModelConfig& config,
            const std::vector<std::string>& architectures) {
  if (config.model_type == "glm_moe_dsa") return true;
  for (const std::string& name : architectures) {
    if (name.starts_with("GlmMoeDsa")) return true;
  }
  if (config.qk_nope_head_dim == 192 && config.v_head_dim == 256) return true;
  return fields.ok() && config.n_group == 1 && !config.rope.is_yarn() &&
         config.rms_norm_eps == 1e-5f;
}

void read_indexer(FieldReader& fields, ModelConfig& config) {
  config.index_n_heads = small_integer(fields, "index_n_heads", 1, kMaxHeads);
  config.index_head_dim = fields.integer("index_head_dim", 2, kMaxHeadDim);
  config.index_topk = fields.integer("index_topk", 1, kMaxPositions);
  config.index_share_for_mtp_iteration = fields.boolean("index_share_for_mtp_iteration", false);
  config.indexer_rope_interleave = fields.boolean(
      "indexer_rope_interleave", is_glm(fields, config, fields.texts("architectures")));
  expect(fields, config.index_head_dim >= config.qk_rope_head_dim,
         str("index_head_dim is ", config.index_head_dim, ", less than qk_rope_head_dim ",
             config.qk_rope_head_dim));
}

void read_experts(FieldReader& fields, ModelConfig& config) {
  config.n_routed_experts = small_integer(fields, "n_routed_experts", 1, kMaxExperts);
  config.n_shared_experts = small_integer(fields, "n_shared_experts", 0, 64);
  config.num_experts_per_tok = small_integer(fields, "num_experts_per_tok", 1, kMaxExperts);
  config.n_group = small_integer(fields, "n_group", 1, kMaxExperts, 1);
  config.topk_group = small_integer(fields, "topk_group", 1, kMaxExperts, 1);
  config.norm_topk_prob = fields.boolean("norm_topk_prob", true);
  config.routed_scaling_factor =
      static_cast<float>(fields.number("routed_scaling_factor", 1e-6, 1e6));
  if (!fields.ok()) return;
  expect(fields, config.n_routed_experts % config.n_group == 0,
         str("n_routed_experts is ", config.n_routed_experts, ", no multiple of n_group ",
             config.n_group));
  expect(fields, config.topk_group <= config.n_group,
         str("topk_group is ", config.topk_group, ", more than n_group ", config.n_group));
  const int per_group = config.n_routed_experts / config.n_group;
  expect(fields, config.n_group == 1 || per_group >= 2,
         "a group of experts has one member; expected at least 2, whose scores rank the group");
  expect(fields, config.num_experts_per_tok <= config.topk_group * per_group,
         str("num_experts_per_tok is ", config.num_experts_per_tok, ", more than the ",
             config.topk_group * per_group, " experts a token can reach"));
  const std::string scoring = fields.text("scoring_func", "sigmoid");
  expect(fields, scoring == "sigmoid",
         str("scoring_func is ", quoted(scoring), "; only \"sigmoid\" is supported"));
  const std::string method = fields.text("topk_method", "noaux_tc");
  expect(fields, method == "noaux_tc",
         str("topk_method is ", quoted(method), "; only \"noaux_tc\" is supported"));
}

// `list` has one entry a layer; those of the MTP layers may follow, which can only be `mtp_entry`.
std::vector<std::string> without_mtp(FieldReader& fields, const ModelConfig& config,
                                     std::string_view key, std::vector<std::string> list,
                                     std::string_view mtp_entry) {
  const auto num_layers = static_cast<std::size_t>(config.num_hidden_layers);
  const auto mtp_layers =
      static_cast<std::size_t>(config.num_nextn_predict_layers + config.num_unused_mtp_layers);
  if (list.size() != num_layers && list.size() != num_layers + mtp_layers) {
    fields.fail(str(key, " has ", list.size(), " entries for ", num_layers, " layers"));
    return {};
  }
  for (std::size_t i = num_layers; i < list.size(); ++i) {
    expect(fields, list[i] == mtp_entry,
           str(key, " says ", quoted(list[i]), " of an MTP layer; expected ", quoted(mtp_entry)));
  }
  list.resize(num_layers);
  return list;
}

void read_mlp_kinds(FieldReader& fields, ModelConfig& config) {
  const auto num_layers = static_cast<std::size_t>(config.num_hidden_layers);
  if (fields.has("mlp_layer_types")) {
    const auto kinds =
        without_mtp(fields, config, "mlp_layer_types", fields.texts("mlp_layer_types"), "sparse");
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      expect(fields, kinds[i] == "dense" || kinds[i] == "sparse",
             str("mlp_layer_types holds ", quoted(kinds[i]), "; expected \"dense\" or \"sparse\""));
      config.layers[i].mlp = kinds[i] == "dense" ? MlpKind::kDense : MlpKind::kSparse;
    }
    return;
  }
  // More than there are layers: all are dense, as in a model cut down to a few layers.
  const std::int64_t first = fields.integer("first_k_dense_replace", 0, kMaxLayers, 3);
  const std::int64_t every = fields.integer("moe_layer_freq", 1, kMaxLayers, 1);
  for (std::size_t i = 0; i < num_layers; ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    const bool sparse = layer >= first && layer % every == 0;
    config.layers[i].mlp = sparse ? MlpKind::kSparse : MlpKind::kDense;
  }
}

// Each entry is `full` or `shared`, as the key spells it.
void read_indexer_list(FieldReader& fields, ModelConfig& config, std::string_view key,
                       const std::vector<std::string>& list, std::string_view full = "full",
                       std::string_view shared = "shared") {
  const auto kinds = without_mtp(fields, config, key, list, full);
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    expect(
        fields, kinds[i] == full || kinds[i] == shared,
        str(key, " holds ", quoted(kinds[i]), "; expected ", quoted(full), " or ", quoted(shared)));
    config.layers[i].has_indexer = kinds[i] == full;
  }
}

// index_topk_pattern: a letter a layer, or a list as indexer_types is one.
void read_indexer_pattern(FieldReader& fields, ModelConfig& config) {
  constexpr std::string_view kKey = "index_topk_pattern";
  if (fields.find(kKey)->is_array())
    return read_indexer_list(fields, config, kKey, fields.texts(kKey));
  std::vector<std::string> letters;
  for (const char letter : fields.text(kKey, "")) letters.emplace_back(1, letter);
  read_indexer_list(fields, config, kKey, letters, "F", "S");
}

// Precedence: indexer_types, then index_topk_pattern, then frequency and offset.
void read_indexer_kinds(FieldReader& fields, ModelConfig& config) {
  if (fields.has("indexer_types")) {
    read_indexer_list(fields, config, "indexer_types", fields.texts("indexer_types"));
  } else if (fields.has("index_topk_pattern")) {
    read_indexer_pattern(fields, config);
  } else {
    const std::int64_t freq =
        std::max<std::int64_t>(fields.integer("index_topk_freq", 0, kMaxLayers, 1), 1);
    const std::int64_t offset = fields.integer("index_skip_topk_offset", 0, kMaxLayers, 2);
    for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
      config.layers[static_cast<std::size_t>(i)].has_indexer =
          std::max<std::int64_t>(i - (offset - 1), 0) % freq == 0;
    }
  }
  expect(fields, !fields.ok() || config.layers[0].has_indexer,
         "layer 0 shares an indexer, but there is no earlier layer to share with");
}

// Whether a rotation of compressed-tensors is one of rows, and not of stored weights alone.
bool rotates_rows(const Json& json) {
  if (json.is_array()) {
    return std::any_of(json.as_array().begin(), json.as_array().end(), rotates_rows);
  }
  if (!json.is_object()) return false;
  const Json* location = json.find("location");
  if (location && location->is_string() && !location->as_string().starts_with("weight_")) {
    return true;
  }
  return std::any_of(json.as_object().begin(), json.as_object().end(),
                     [](const auto& field) { return rotates_rows(field.second); });
}

std::string describe_quantization(const FieldReader& fields) {
  const Json* json = fields.find("quantization_config");
  if (!json || !json->is_object()) return "";
  std::string text;
  for (const char* key : {"quant_method", "quant_algo", "fmt", "format"}) {
    const Json* value = json->find(key);
    if (!value || !value->is_string()) continue;
    if (!text.empty()) text += ' ';
    text += value->as_string().substr(0, 40);
  }
  return text;
}

}  // namespace

Result<ModelConfig> parse_config(const Json& json) {
  FieldReader fields(json);
  ModelConfig config;
  // The model's identity first: of another model nothing else is worth a complaint.
  read_identity(fields, config);
  read_widths(fields, config);
  read_attention(fields, config);
  read_experts(fields, config);
  if (!fields.ok()) return fields.status().take_error();
  GLINT_TRY(config.rope, parse_rope(json));
  config.softmax_scale = static_cast<float>(config.rope.softmax_factor /
                                            std::sqrt(static_cast<double>(config.qk_head_dim())));
  config.layers.resize(static_cast<std::size_t>(config.num_layers_with_mtp()));
  read_indexer(fields, config);
  read_mlp_kinds(fields, config);
  read_indexer_kinds(fields, config);
  config.eos_token_ids = fields.token_ids("eos_token_id", config.vocab_size);
  config.quantization = describe_quantization(fields);
  const Json* quantization = fields.find("quantization_config");
  const Json* transforms = quantization ? quantization->find("transform_config") : nullptr;
  expect(fields, !transforms || !rotates_rows(*transforms),
         "quantization_config.transform_config rotates inputs or outputs of layers, which is not "
         "supported; take a checkpoint without");
  if (!fields.ok()) return fields.status().take_error();
  return config;
}

Result<ModelConfig> read_config(const std::string& path) {
  GLINT_TRY(const Json json, read_json_file(path, kJsonLimits));
  return parse_config(json).in(path);
}

Result<GenerationConfig> parse_generation_config(const Json& json, std::int64_t vocab_size,
                                                 const GenerationConfig& otherwise) {
  FieldReader fields(json);
  GenerationConfig config = otherwise;
  config.temperature = fields.number("temperature", 0, 1e6, config.temperature);
  config.top_p = fields.number("top_p", 1e-6, 1, config.top_p);
  config.min_p = fields.number("min_p", 0, 1, config.min_p);
  config.top_k =
      std::max(small_integer(fields, "top_k", -1, kMaxVocab, config.top_k), 0);  // -1: all
  config.repetition_penalty =
      fields.number("repetition_penalty", 1e-6, 1e6, config.repetition_penalty);
  if (json.find("eos_token_id"))
    config.eos_token_ids = fields.token_ids("eos_token_id", vocab_size);
  if (!fields.boolean("do_sample", true)) config.temperature = 0;
  if (!fields.ok()) return fields.status().take_error();
  return config;
}

Result<GenerationConfig> read_generation_config(const std::string& path, std::int64_t vocab_size) {
  if (!is_present(path)) return GenerationConfig{};
  GLINT_TRY(const Json json, read_json_file(path, kJsonLimits));
  return parse_generation_config(json, vocab_size).in(path);
}

std::vector<TokenId> stop_ids(const ModelConfig& config, const GenerationConfig& generation) {
  std::vector<TokenId> ids = config.eos_token_ids;
  ids.insert(ids.end(), generation.eos_token_ids.begin(), generation.eos_token_ids.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

void leave_out_unused_layers(const ModelConfig& config, Json& json) {
  if (config.num_unused_mtp_layers == 0) return;
  json.set("num_nextn_predict_layers", config.num_nextn_predict_layers);
  const auto most = static_cast<std::size_t>(config.num_layers_with_mtp());
  for (const char* key : {"mlp_layer_types", "indexer_types", "index_topk_pattern"}) {
    Json* of_layers = json.find(key);
    if (!of_layers) continue;
    if (of_layers->is_string()) *of_layers = of_layers->as_string().substr(0, most);
    if (!of_layers->is_array()) continue;
    Json::Array& list = of_layers->as_array();
    list.resize(std::min(list.size(), most));
  }
}

bool same_model(ModelConfig a, ModelConfig b) {
  for (ModelConfig* config : {&a, &b}) {
    config->model_type.clear();
    config->quantization.clear();
    config->eos_token_ids.clear();
  }
  return a == b;
}

int ModelConfig::num_moe_layers_before(int layer) const {
  int count = 0;
  for (int i = 0; i < layer; ++i) count += layers[i].is_dense() ? 0 : 1;
  return count;
}

std::vector<int> ModelConfig::moe_layers() const {
  std::vector<int> all;
  for (int i = 0; i < num_hidden_layers; ++i)
    if (!layers[i].is_dense()) all.push_back(i);
  return all;
}

}  // namespace glint
