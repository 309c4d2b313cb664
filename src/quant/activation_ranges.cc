#include "quant/activation_ranges.h"

#include <algorithm>
#include <limits>

#include "base/str.h"

namespace glint {
namespace {

constexpr std::string_view kFormat = "glint activation ranges";
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 53;  // those of many files can be added up

// "model.layers.3.mlp.experts.*.gate_proj" of "model.layers.3.mlp.experts.17.gate_proj"; empty for
// what is no routed expert's.
std::string projection_of_layer(std::string_view name) {
  constexpr std::string_view kExperts = ".mlp.experts.";
  const std::size_t at = name.find(kExperts);
  if (at == name.npos) return {};
  const std::size_t begin = at + kExperts.size();
  const std::size_t end = name.find('.', begin);
  if (end == name.npos) return {};
  return str(name.substr(0, begin), "*", name.substr(end));
}

Result<ActivationRange> parse_range(const std::string& name, const Json& json) {
  const Json* amax = json.find("amax");
  const Json* tokens = json.find("tokens");
  if (!amax || !amax->is_number() || !tokens || !tokens->is_int() || tokens->as_int() < 0 ||
      tokens->as_int() > kMaxTokens) {
    return invalid(str("the range of ", quoted(name),
                       " needs \"amax\", a number, and \"tokens\", a count of rows"));
  }
  const double value = amax->as_double();
  if (!(value >= 0 && value <= double{std::numeric_limits<float>::max()})) {
    return invalid(str("the amax of ", quoted(name), " is ", format_double(value),
                       "; expected a number that is not negative"));
  }
  if (value > 0 && tokens->as_int() == 0) {
    return invalid(str("the range of ", quoted(name), " has an amax, but saw no tokens"));
  }
  return ActivationRange{.amax = static_cast<float>(value), .tokens = tokens->as_int()};
}

}  // namespace

Json to_json(const ActivationRanges& ranges) {
  Json::Object members;
  for (const auto& [name, range] : ranges) {
    members.emplace_back(name,
                         Json::Object{{"amax", double{range.amax}}, {"tokens", range.tokens}});
  }
  return Json::Object{{"format", kFormat}, {"version", 1}, {"ranges", std::move(members)}};
}

Result<ActivationRanges> parse_activation_ranges(const Json& json) {
  const Json* format = json.find("format");
  const Json* version = json.find("version");
  const Json* members = json.find("ranges");
  if (!format || *format != Json(kFormat) || !version || *version != Json(1) || !members ||
      !members->is_object()) {
    return invalid(str("this is no file of glint calibrate: expected \"format\": \"", kFormat,
                       "\", \"version\": 1 and \"ranges\""));
  }
  ActivationRanges ranges;
  for (const auto& [name, member] : members->as_object()) {
    GLINT_TRY(const ActivationRange range, parse_range(name, member));
    ranges[name] = range;
  }
  return ranges;
}

Result<ActivationRanges> read_activation_ranges(const std::string& path) {
  Result<Json> json = read_json_file(path);
  if (!json.ok() && json.error().code == ErrorCode::kInvalidArgument)
    return invalid(json.error().message + "; expected a file that glint calibrate wrote");
  if (!json.ok()) return std::move(json).take_error();
  return parse_activation_ranges(json.value()).in(path);
}

void merge_into(ActivationRanges& ranges, const ActivationRanges& more) {
  for (const auto& [name, range] : more) {
    ActivationRange& merged = ranges[name];
    merged.amax = std::max(merged.amax, range.amax);
    merged.tokens += range.tokens;
  }
}

std::vector<std::string> fill_unseen_experts(ActivationRanges& ranges) {
  std::map<std::string, float> largest;
  for (const auto& [name, range] : ranges) {
    const std::string projection = projection_of_layer(name);
    if (!projection.empty()) largest[projection] = std::max(largest[projection], range.amax);
  }
  std::vector<std::string> filled;
  for (auto& [name, range] : ranges) {
    const std::string projection = projection_of_layer(name);
    if (range.amax > 0 || projection.empty() || largest[projection] == 0) continue;
    range.amax = largest[projection];
    filled.push_back(name);
  }
  return filled;
}

}  // namespace glint
