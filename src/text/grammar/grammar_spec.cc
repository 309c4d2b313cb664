#include "text/grammar/grammar_spec.h"

#include <algorithm>

#include "base/json.h"

namespace glint {
namespace {

// Schemas of requests are less deep than 256 levels (JsonLimits).
constexpr int kMaxDepth = 1024;

Json json_of(const GrammarSpec& spec) {
  Json::Array choices(spec.choices.begin(), spec.choices.end()), tools;
  for (const ToolSpec& tool : spec.tools) tools.push_back(Json::Array{tool.name, tool.parameters});
  return Json::Array{static_cast<int>(spec.kind),
                     spec.text,
                     std::move(choices),
                     std::move(tools),
                     spec.at_least_one,
                     spec.parallel,
                     spec.lenient,
                     spec.instead ? json_of(*spec.instead) : Json()};
}

Result<GrammarSpec> spec_of(const Json& json) {
  const Error error = invalid("this is no grammar that dump_spec() wrote");
  const auto is_text = [](const Json& item) { return item.is_string(); };
  if (!json.is_array() || json.as_array().size() != 8) return error;
  const Json::Array& parts = json.as_array();
  if (!parts[0].is_int() || parts[0].as_int() < 0 ||
      parts[0].as_int() > static_cast<int>(GrammarSpec::Kind::kStructuralTag))
    return error;
  if (!parts[1].is_string() || !parts[2].is_array() || !parts[3].is_array()) return error;
  for (int flag = 4; flag < 7; ++flag)
    if (!parts[static_cast<std::size_t>(flag)].is_bool()) return error;
  GrammarSpec spec = {.kind = static_cast<GrammarSpec::Kind>(parts[0].as_int()),
                      .text = parts[1].as_string(),
                      .at_least_one = parts[4].as_bool(),
                      .parallel = parts[5].as_bool(),
                      .lenient = parts[6].as_bool()};
  const Json::Array& choices = parts[2].as_array();
  if (!std::all_of(choices.begin(), choices.end(), is_text)) return error;
  for (const Json& choice : choices) spec.choices.push_back(choice.as_string());
  for (const Json& tool : parts[3].as_array()) {
    if (!tool.is_array() || tool.as_array().size() != 2 || !is_text(tool.as_array()[0]))
      return error;
    spec.tools.own().push_back({tool.as_array()[0].as_string(), tool.as_array()[1]});
  }
  if (parts[7].is_null()) return spec;
  GLINT_TRY(GrammarSpec instead, spec_of(parts[7]));
  spec.instead = std::make_shared<const GrammarSpec>(std::move(instead));
  return spec;
}

}  // namespace

std::string dump_spec(const GrammarSpec& spec) { return dump_json(json_of(spec)); }

Result<GrammarSpec> parse_spec(std::string_view text) {
  GLINT_TRY(const Json json, parse_json(text, {.max_depth = kMaxDepth}));
  return spec_of(json);
}

}  // namespace glint
