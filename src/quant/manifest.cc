#include "quant/manifest.h"

#include <algorithm>

namespace glint {
namespace {

constexpr const char* kTool = "glint quantize";

Json errors_to_json(const ErrorSums& errors) {
  Json json = Json::Object{};
  for (const auto& [role, sum] : errors) {
    json.set(name_of(role), Json::Object{{"weights", sum.weights},
                                         {"squared_error", sum.squared_error},
                                         {"squared_weights", sum.squared_weights},
                                         {"relative", sum.relative()}});
  }
  return json;
}

bool parse_errors(const Json& json, ErrorSums& errors) {
  if (!json.is_object()) return false;
  for (int r = 0; r < kNumTensorRoles; ++r) {
    const auto role = static_cast<TensorRole>(r);
    const Json* sum = json.find(name_of(role));
    if (!sum) continue;
    const Json* weights = sum->find("weights");
    const Json* error = sum->find("squared_error");
    const Json* squares = sum->find("squared_weights");
    if (!weights || !weights->is_int() || !error || !error->is_number() || !squares ||
        !squares->is_number()) {
      return false;
    }
    errors[role] = {error->as_double(), squares->as_double(), weights->as_int()};
  }
  return true;
}

bool parse_shard(const Json& json, FinishedShard& shard) {
  const Json* name = json.find("file");
  const Json* bytes = json.find("bytes");
  const Json* hash = json.find("xxh128");
  const Json* errors = json.find("errors");
  if (!name || !name->is_string() || !bytes || !bytes->is_int() || !hash || !hash->is_string() ||
      !errors) {
    return false;
  }
  shard.name = name->as_string();
  shard.bytes = bytes->as_int();
  shard.xxh128 = hash->as_string();
  return parse_errors(*errors, shard.errors);
}

std::vector<const FinishedShard*> by_name(const std::vector<FinishedShard>& shards) {
  std::vector<const FinishedShard*> sorted;
  for (const FinishedShard& shard : shards) sorted.push_back(&shard);
  std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->name < b->name; });
  return sorted;
}

}  // namespace

const FinishedShard* Manifest::find(std::string_view shard) const {
  const auto at = std::find_if(shards.begin(), shards.end(),
                               [&](const FinishedShard& entry) { return entry.name == shard; });
  return at == shards.end() ? nullptr : &*at;
}

ErrorSums Manifest::errors() const {
  ErrorSums errors;
  for (const FinishedShard* shard : by_name(shards)) {
    for (const auto& [role, sum] : shard->errors) errors[role].add(sum);
  }
  return errors;
}

Json to_json(const Manifest& manifest) {
  Json::Array shards;
  for (const FinishedShard* shard : by_name(manifest.shards)) {
    shards.push_back(Json::Object{{"file", shard->name},
                                  {"bytes", shard->bytes},
                                  {"xxh128", shard->xxh128},
                                  {"errors", errors_to_json(shard->errors)}});
  }
  return Json::Object{{"tool", kTool},
                      {"job", manifest.job},
                      {"errors", errors_to_json(manifest.errors())},
                      {"shards", std::move(shards)}};
}

Result<Manifest> parse_manifest(const Json& json) {
  const Json* tool = json.find("tool");
  const Json* job = json.find("job");
  const Json* shards = json.find("shards");
  if (!tool || *tool != Json(kTool) || !job || !shards || !shards->is_array()) {
    return invalid("this is no manifest of glint quantize");
  }
  Manifest manifest = {.job = *job, .shards = {}};
  for (const Json& entry : shards->as_array()) {
    FinishedShard shard;
    if (!parse_shard(entry, shard)) return invalid("an entry of its shards is damaged");
    manifest.shards.push_back(std::move(shard));
  }
  return manifest;
}

}  // namespace glint
