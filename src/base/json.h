// JSON: a value that keeps what the text said (key order, numbers of any size, doubles to the last
// bit), a parser with a depth limit for hostile input, and a writer in Python's or in compact form.
//
// The grammar is Boost.JSON's; its number conversion and its DOM are not used (they lose bits, and
// keys).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace glint {

class Json {
 public:
  struct BigNumber {  // an integer outside int64, or a number beyond all doubles, as its text
    std::string text;
    bool is_integer() const { return text.find_first_of(".eE") == text.npos; }
    bool operator==(const BigNumber&) const = default;
  };
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  // In the order of the text; a repeated key keeps its last value.
  using Object = std::vector<Member>;

  Json() = default;
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  Json(int value) : value_(std::int64_t{value}) {}
  Json(std::int64_t value) : value_(value) {}
  Json(double value) : value_(value) {}
  Json(BigNumber value) : value_(std::move(value)) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  Json(Object value) : value_(std::move(value)) {}

  bool is_null() const { return std::holds_alternative<std::nullptr_t>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<std::int64_t>(value_); }
  bool is_double() const { return std::holds_alternative<double>(value_); }
  bool is_big_number() const { return std::holds_alternative<BigNumber>(value_); }
  bool is_number() const { return is_int() || is_double() || is_big_number(); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }

  // Each aborts if the value is of another kind.
  bool as_bool() const { return std::get<bool>(value_); }
  std::int64_t as_int() const { return std::get<std::int64_t>(value_); }
  double as_double() const;  // of any number
  const BigNumber& as_big_number() const { return std::get<BigNumber>(value_); }
  const std::string& as_string() const { return std::get<std::string>(value_); }
  const Array& as_array() const { return std::get<Array>(value_); }
  Array& as_array() { return std::get<Array>(value_); }
  const Object& as_object() const { return std::get<Object>(value_); }
  Object& as_object() { return std::get<Object>(value_); }

  // The member `key`, or null if this is no object or has none. Linear: index large objects
  // yourself.
  const Json* find(std::string_view key) const;
  Json* find(std::string_view key) { return const_cast<Json*>(std::as_const(*this).find(key)); }

  // Sets or appends member `key` of an object (a null becomes an empty object).
  void set(std::string_view key, Json value);

  // "null", "a boolean", "an integer", "a number", "a text", "a list", "an object": for error
  // messages.
  const char* kind() const;

  bool operator==(const Json&) const = default;

 private:
  std::variant<std::nullptr_t, bool, std::int64_t, double, BigNumber, std::string, Array, Object>
      value_ = nullptr;
};

struct JsonLimits {
  int max_depth = 256;
  bool allow_duplicate_keys = true;  // false: a repeated key is an error
  // Values of all kinds together. A value costs 40 bytes, so a hostile text of "[0,0,0," would need
  // twenty times its own size.
  std::size_t max_values = std::size_t{1} << 26;
  // Members of all objects together. One takes some 100 bytes, and its key is looked up.
  std::size_t max_members = std::size_t{1} << 26;
};

// Errors say line, column and reason: "line 3, column 7: expected a value".
Result<Json> parse_json(std::string_view text, const JsonLimits& limits = {});

// The JSON of a file, whose name is in every error. Refuses files over 256 MiB.
Result<Json> read_json_file(const std::string& path, const JsonLimits& limits = {});

enum class JsonStyle {
  kCompact,  // {"a":1,"b":[2,3]}
  kPython,   // {"a": 1, "b": [2, 3]}   json.dumps(ensure_ascii=False)
  kIndent2,  // json.dumps(indent=2)
};
std::string dump_json(const Json& value, JsonStyle style = JsonStyle::kCompact);

// Appends `text` as a JSON string with its quotes. Non-ASCII stays; controls become \n, \u0001 ...
void append_json_string(std::string& out, std::string_view text);
// append_json_string() without the quotes: a part of a string.
void append_json_escaped(std::string& out, std::string_view text);

// The shortest text that reads back as `value`, spelled as Python's repr: 1.0, 0.1, 1e+16, 1e-05,
// inf, nan.
std::string format_double(double value);

}  // namespace glint
