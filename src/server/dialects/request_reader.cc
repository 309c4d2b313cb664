#include "server/dialects/request_reader.h"

#include <algorithm>
#include <cmath>

#include "base/cut_text.h"
#include "base/str.h"

namespace glint {
namespace {

bool is_kind(const Json& json, std::string_view kind) {
  if (kind == "object") return json.is_object();
  if (kind == "array") return json.is_array();
  if (kind == "string") return json.is_string();
  if (kind == "boolean") return json.is_bool();
  if (kind == "integer") return json.is_int();
  GLINT_CHECK(kind == "number", std::string(kind));
  return json.is_number();
}

// An integer, also when it is written 3.0.
std::optional<std::int64_t> to_integer(const Json& json) {
  if (json.is_int()) return json.as_int();
  if (!json.is_double()) return {};
  const double value = json.as_double();
  if (value != std::floor(value) || std::abs(value) > 0x1p53) return {};
  return static_cast<std::int64_t>(value);
}

// A value in an error: numbers may have millions of digits.
std::string shown(const Json& json) { return cut_text(dump_json(json), 200); }

Json type_schema(const char* type) { return Json::Object{{"type", type}}; }

}  // namespace

RequestReader::RequestReader(const Json& json, std::string path, std::optional<ApiError>& error)
    : json_(&json), path_(std::move(path)), error_(&error) {
  if (ok() && !json.is_object()) {
    const std::string name = path_.empty() ? "the request" : path_;
    *error_ =
        ApiError{.message = str(name, " is ", json.kind(), "; expected an object"), .param = path_};
  }
}

RequestReader::RequestReader(Json& schema) : schema_(&schema) {
  schema = Json::Object{{"type", "object"}, {"properties", Json::Object{}}};
}

void RequestReader::read_items(std::span<const char* const> names, std::size_t index) {
  items_of_ = names;
  item_ = index;
  if (reading()) return;
  for (const char* name : names) {
    const Json one = *schema_->find("properties")->find(name);
    Json list = Json::Object{{"type", "array"}, {"items", one}};
    describe(name, Json::Object{{"anyOf", Json::Array{one, std::move(list)}}});
  }
}

std::pair<const Json*, bool> RequestReader::look(const char* name) const {
  const Json* member = reading() ? json_->find(name) : nullptr;
  const auto same = [name](std::string_view other) { return other == name; };
  const bool is_item = member && member->is_array() && std::ranges::any_of(items_of_, same);
  return {is_item ? &member->as_array()[item_] : member, is_item};
}

const Json* RequestReader::find(const char* name) const {
  if (!ok()) return nullptr;
  const Json* member = look(name).first;
  return member && !member->is_null() ? member : nullptr;
}

std::string RequestReader::path(const char* name) const {
  const std::string own = look(name).second ? str(name, "[", item_, "]") : name;
  return path_.empty() ? own : str(path_, ".", own);
}

RequestReader RequestReader::item(const char* name, std::size_t index) const {
  return {look(name).first->as_array()[index], str(path(name), "[", index, "]"), *error_};
}

void RequestReader::fail(const char* name, std::string message, std::string code) {
  if (!ok() || !reading()) return;
  *error_ = ApiError{.message = std::move(message), .param = path(name), .code = std::move(code)};
}

void RequestReader::describe(const char* name, Json schema) {
  if (reading()) return;
  for (auto& [key, value] : schema_->as_object())
    if (key == "properties") value.set(name, std::move(schema));
}

void RequestReader::expected(const char* name, const Json& found, const std::string& what) {
  fail(name, str(path(name), " is ", found.kind(), "; expected ", what));
}

void RequestReader::require(const char* name) {
  if (reading()) {
    if (ok() && !find(name))
      fail(name, str(path(name), " is missing"), "missing_required_parameter");
    return;
  }
  const Json* names = schema_->find("required");
  Json::Array all = names ? names->as_array() : Json::Array{};
  all.push_back(name);
  schema_->set("required", std::move(all));
}

void RequestReader::boolean(const char* name, bool& out) {
  std::optional<bool> value;
  boolean(name, value);
  if (value) out = *value;
}

void RequestReader::boolean(const char* name, std::optional<bool>& out) {
  describe(name, type_schema("boolean"));
  const Json* member = find(name);
  if (!member) return;
  if (!member->is_bool()) return expected(name, *member, "a boolean");
  out = member->as_bool();
}

void RequestReader::number(const char* name, double& out, NumberRange range) {
  if (!reading()) {
    Json schema = type_schema("number");
    if (std::isfinite(range.min))
      schema.set(range.above_min ? "exclusiveMinimum" : "minimum", range.min);
    if (std::isfinite(range.max)) schema.set("maximum", range.max);
    return describe(name, std::move(schema));
  }
  const Json* member = find(name);
  if (!member) return;
  if (!member->is_number()) return expected(name, *member, "a number");
  const double value = member->as_double();
  const bool too_low = range.above_min ? value <= range.min : value < range.min;
  if (!std::isfinite(value) || too_low || value > range.max) {
    std::string limits = std::isfinite(range.min) ? str(range.above_min ? "above " : "at least ",
                                                        format_double(range.min))
                                                  : "";
    if (std::isfinite(range.max))
      limits += str(limits.empty() ? "" : " and ", "at most ", format_double(range.max));
    return fail(name, str(path(name), " is ", format_double(value), "; it must be ",
                          limits.empty() ? "finite" : limits));
  }
  out = value;
}

std::optional<std::int64_t> RequestReader::integer_of(const char* name, IntegerRange range) {
  describe(name, Json::Object{{"type", "integer"}, {"minimum", range.min}, {"maximum", range.max}});
  const Json* member = find(name);
  if (!member) return {};
  if (!member->is_number()) {
    expected(name, *member, "an integer");
    return {};
  }
  const std::optional<std::int64_t> value = to_integer(*member);
  if (!value || *value < range.min || *value > range.max) {
    fail(name, str(path(name), " is ", shown(*member), "; it must be an integer from ", range.min,
                   " to ", range.max));
    return {};
  }
  return value;
}

void RequestReader::integer(const char* name, int& out, IntegerRange range) {
  if (const auto value = integer_of(name, range)) out = static_cast<int>(*value);
}

void RequestReader::integer(const char* name, std::optional<int>& out, IntegerRange range) {
  if (const auto value = integer_of(name, range)) out = static_cast<int>(*value);
}

void RequestReader::seed(const char* name, std::optional<std::uint64_t>& out) {
  constexpr IntegerRange kAll = {std::numeric_limits<std::int64_t>::min(),
                                 std::numeric_limits<std::int64_t>::max()};
  if (const auto value = integer_of(name, kAll)) out = static_cast<std::uint64_t>(*value);
}

void RequestReader::text(const char* name, std::string& out) {
  describe(name, type_schema("string"));
  const Json* member = find(name);
  if (!member) return;
  if (!member->is_string()) return expected(name, *member, "a text");
  out = member->as_string();
}

void RequestReader::one_of(const char* name, std::string& out,
                           std::initializer_list<const char*> values) {
  Json::Array all;
  for (const char* value : values) all.push_back(value);
  describe(name, Json::Object{{"type", "string"}, {"enum", all}});
  const Json* member = find(name);
  if (!member) return;
  if (!member->is_string()) return expected(name, *member, "a text");
  for (const char* value : values) {
    if (member->as_string() == value) {
      out = value;
      return;
    }
  }
  fail(name,
       str(path(name), " is ", quoted(member->as_string()), "; expected one of ", dump_json(all)));
}

void RequestReader::texts(const char* name, std::vector<std::string>& out, int max_items,
                          std::size_t max_bytes) {
  Json list =
      Json::Object{{"type", "array"}, {"items", type_schema("string")}, {"maxItems", max_items}};
  describe(name, Json::Object{{"anyOf", Json::Array{type_schema("string"), std::move(list)}}});
  const Json* member = find(name);
  if (!member) return;
  const auto check_bytes = [&] {
    std::size_t bytes = 0;
    for (const std::string& text : out) bytes += text.size();
    if (bytes > max_bytes)
      fail(name, str(path(name), " holds ", bytes, " bytes; at most ", max_bytes, " are allowed"));
  };
  if (member->is_string()) {
    out = {member->as_string()};
    return check_bytes();
  }
  if (!member->is_array()) return expected(name, *member, "a text or a list of texts");
  if (!is_within(name, *member, static_cast<std::size_t>(max_items), "items")) return;
  out.clear();
  for (const Json& item : member->as_array()) {
    if (!item.is_string()) return expected(str(name, "[", out.size(), "]").c_str(), item, "a text");
    out.push_back(item.as_string());
  }
  check_bytes();
}

bool RequestReader::is_within(const char* name, const Json& list, std::size_t max_items,
                              const char* items) {
  const std::size_t size = list.as_array().size();
  if (size <= max_items) return true;
  fail(name, str(path(name), " has ", size, " ", items, "; at most ", max_items, " are allowed"));
  return false;
}

void RequestReader::tokens(const char* name, std::vector<TokenId>& out, TokenId vocab_size,
                           std::size_t max_items) {
  const Json item = Json::Object{{"type", "integer"}, {"minimum", 0}, {"maximum", vocab_size - 1}};
  Json list = Json::Object{{"type", "array"}, {"items", item}};
  if (max_items != kNoLimit) list.set("maxItems", static_cast<std::int64_t>(max_items));
  describe(name, std::move(list));
  const Json* member = find(name);
  if (!member) return;
  if (!member->is_array()) return expected(name, *member, "a list of token ids");
  if (!is_within(name, *member, max_items, "tokens")) return;
  out.clear();
  out.reserve(member->as_array().size());
  for (const Json& token : member->as_array()) {
    const std::optional<std::int64_t> id = to_integer(token);
    if (!id) return expected(str(name, "[", out.size(), "]").c_str(), token, "a token id");
    if (*id < 0 || *id >= vocab_size)
      return fail(name,
                  str(path(name), " holds token ", *id, "; the model's are 0 to ", vocab_size - 1));
    out.push_back(static_cast<TokenId>(*id));
  }
}

void RequestReader::value(const char* name, Json& out, std::initializer_list<const char*> kinds) {
  Json::Array types;
  std::string wanted;
  for (const char* kind : kinds) {
    types.push_back(kind);
    wanted += str(wanted.empty() ? "" : " or ", kind);
  }
  describe(name, types.empty() ? Json(Json::Object{}) : Json(Json::Object{{"type", types}}));
  const Json* member = find(name);
  if (!member) return;
  bool fits = kinds.size() == 0;
  for (const char* kind : kinds) fits = fits || is_kind(*member, kind);
  if (!fits) return expected(name, *member, wanted);
  out = *member;
}

void RequestReader::group(const char* name, const std::function<void(RequestReader&)>& fields) {
  if (!reading()) {
    Json schema;
    RequestReader inner(schema);
    fields(inner);
    return describe(name, std::move(schema));
  }
  const Json* member = find(name);
  if (!member) return;
  RequestReader inner(*member, path(name), *error_);
  if (inner.ok()) fields(inner);
}

void RequestReader::list(const char* name, std::size_t max_items,
                         const std::function<void(RequestReader&)>& fields) {
  if (!reading()) {
    Json schema;
    RequestReader inner(schema);
    fields(inner);
    Json list = Json::Object{{"type", "array"}, {"items", std::move(schema)}};
    if (max_items != kNoLimit) list.set("maxItems", static_cast<std::int64_t>(max_items));
    return describe(name, std::move(list));
  }
  const Json* member = find(name);
  if (!member) return;
  if (!member->is_array()) return expected(name, *member, "a list of objects");
  if (!is_within(name, *member, max_items, "items")) return;
  for (std::size_t i = 0; i < member->as_array().size() && ok(); ++i) {
    RequestReader inner = item(name, i);
    if (inner.ok()) fields(inner);
  }
}

}  // namespace glint
