#include "model/field_reader.h"

#include "base/str.h"

namespace glint {
namespace {

// The value as an error message shows it: short, and safe to print.
std::string shown(const Json& value) {
  if (value.is_array() || value.is_object()) return value.kind();
  if (value.is_string()) return str("the text ", quoted(value.as_string(), 40));
  return dump_json(value).substr(0, 40);
}

}  // namespace

FieldReader::FieldReader(const Json& object) : object_(object) {
  if (!object.is_object()) fail(str("expected an object, found ", object.kind()));
}

const Json* FieldReader::find(std::string_view key) const {
  const Json* value = object_.find(key);
  return value && !value->is_null() ? value : nullptr;
}

void FieldReader::fail(std::string problem) {
  if (problem_.empty()) problem_ = std::move(problem);
}

Status FieldReader::status() const {
  if (ok()) return Ok{};
  return invalid(problem_);
}

void FieldReader::wrong_kind(std::string_view key, const Json& value, const char* wanted) {
  fail(str(key, " is ", shown(value), "; expected ", wanted));
}

const Json* FieldReader::required(std::string_view key, bool has_fallback, const char* wanted) {
  const Json* value = find(key);
  if (!value && !has_fallback) fail(str(key, " is missing; expected ", wanted));
  return value;
}

std::int64_t FieldReader::integer(std::string_view key, std::int64_t min, std::int64_t max,
                                  std::optional<std::int64_t> fallback) {
  const Json* value = required(key, fallback.has_value(), "an integer");
  if (!value) return fallback.value_or(min);
  if (!value->is_int() && !value->is_big_number())
    return wrong_kind(key, *value, "an integer"), min;
  if (value->is_big_number() || value->as_int() < min || value->as_int() > max) {
    return fail(str(key, " is ", shown(*value), "; expected ", min, " to ", max)), min;
  }
  return value->as_int();
}

double FieldReader::number(std::string_view key, double min, double max,
                           std::optional<double> fallback) {
  const Json* value = required(key, fallback.has_value(), "a number");
  if (!value) return fallback.value_or(min);
  if (!value->is_number()) return wrong_kind(key, *value, "a number"), min;
  const double number = value->as_double();
  if (!(number >= min && number <= max)) {
    return fail(str(key, " is ", shown(*value), "; expected ", min, " to ", max)), min;
  }
  return number;
}

bool FieldReader::boolean(std::string_view key, bool fallback) {
  const Json* value = find(key);
  if (!value) return fallback;
  if (!value->is_bool()) return wrong_kind(key, *value, "true or false"), fallback;
  return value->as_bool();
}

std::string FieldReader::text(std::string_view key, std::string_view fallback) {
  const Json* value = find(key);
  if (!value) return std::string(fallback);
  if (!value->is_string()) return wrong_kind(key, *value, "a text"), std::string(fallback);
  return value->as_string();
}

std::vector<std::string> FieldReader::texts(std::string_view key) {
  std::vector<std::string> texts;
  const Json* value = find(key);
  if (!value) return texts;
  if (!value->is_array()) return wrong_kind(key, *value, "a list of texts"), texts;
  for (const Json& item : value->as_array()) {
    if (!item.is_string()) {
      return fail(str(key, " holds ", shown(item), "; expected only texts")), texts;
    }
    texts.push_back(item.as_string());
  }
  return texts;
}

std::vector<TokenId> FieldReader::token_ids(std::string_view key, std::int64_t vocab_size) {
  std::vector<TokenId> ids;
  const Json* value = find(key);
  if (!value) return ids;
  const Json::Array one = {*value};
  for (const Json& item : value->is_array() ? value->as_array() : one) {
    if (!item.is_int() || item.as_int() < 0 || item.as_int() >= vocab_size) {
      return fail(str(key, " holds ", shown(item), "; expected token ids from 0 to ",
                      vocab_size - 1, ": vocab_size is ", vocab_size)),
             ids;
    }
    ids.push_back(static_cast<TokenId>(item.as_int()));
  }
  return ids;
}

}  // namespace glint
