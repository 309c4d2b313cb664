#include "text/tokenizer/tokenizer_fields.h"

#include <algorithm>

#include "base/contains.h"
#include "base/str.h"

namespace glint {
namespace {

const Json kNull;
const Json kList = Json::Array{};
const Json kObject = Json::Object{};

}  // namespace

Fields::Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
  if (!object.is_object()) fail(str("expected an object, found ", object.kind()));
}

void Fields::fail(std::string problem) {
  if (!problem_) problem_ = invalid(str(where_, ": ", problem));
}

const Json& Fields::value_or_null(std::string_view key) {
  known_.push_back(key);
  const Json* member = object_.find(key);
  return member ? *member : kNull;
}

const Json& Fields::value(std::string_view key) {
  if (!object_.find(key)) fail(str("\"", key, "\" is missing"));
  return value_or_null(key);
}

void Fields::skip(std::initializer_list<std::string_view> keys) {
  known_.insert(known_.end(), keys);
}

const Json& Fields::expect(std::string_view key, bool (Json::*is)() const, const char* expected) {
  const Json& member = value(key);
  if ((member.*is)()) return member;
  fail(str("\"", key, "\" is ", member.kind(), " where ", expected, " belongs"));
  return kNull;
}

std::string Fields::text(std::string_view key) {
  const Json& member = expect(key, &Json::is_string, "a text");
  return member.is_string() ? member.as_string() : std::string();
}

bool Fields::flag(std::string_view key) {
  const Json& member = expect(key, &Json::is_bool, "true or false");
  return member.is_bool() && member.as_bool();
}

std::int64_t Fields::integer(std::string_view key, std::int64_t min, std::int64_t max) {
  const Json& member = value(key);
  if (member.is_int() && member.as_int() >= min && member.as_int() <= max) return member.as_int();
  fail(str("\"", key, "\" is ", member.is_number() ? dump_json(member) : member.kind(),
           " where an integer from ", min, " to ", max, " belongs"));
  return min;
}

const Json::Array& Fields::list(std::string_view key) {
  const Json& member = expect(key, &Json::is_array, "a list");
  return (member.is_array() ? member : kList).as_array();
}

const Json::Object& Fields::object(std::string_view key) {
  const Json& member = expect(key, &Json::is_object, "an object");
  return (member.is_object() ? member : kObject).as_object();
}

std::string Fields::text_or(std::string_view key, std::string absent) {
  return value_or_null(key).is_null() ? std::move(absent) : text(key);
}

bool Fields::flag_or(std::string_view key, bool absent) {
  return value_or_null(key).is_null() ? absent : flag(key);
}

Status Fields::done() {
  if (problem_) return *problem_;
  for (const auto& [key, value] : object_.as_object()) {
    if (!contains(known_, key)) {
      return unsupported(str(where_, ": unsupported member ", quoted(key)));
    }
  }
  return Ok{};
}

Status Fields::unknown_type(std::string_view type, std::string_view known) {
  if (problem_) return *problem_;
  return unsupported(str(where_, ": unsupported type ", quoted(type), "; glint knows ", known));
}

Status parse_sequence(Fields& fields, std::string_view key, int depth, const ParseStep& parse) {
  constexpr int kMaxDepth = 8;
  const Json::Array& steps = fields.list(key);
  GLINT_TRY_STATUS(fields.done());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::string where = str(fields.where(), ".", key, "[", i, "]");
    if (depth == kMaxDepth) return invalid(where + ": sequences are nested too deeply");
    GLINT_TRY_STATUS(parse(steps[i], where, depth + 1));
  }
  return Ok{};
}

}  // namespace glint
