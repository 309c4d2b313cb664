// tojson.
#include "base/json.h"

#include <cmath>

#include "base/str.h"
#include "base/utf8.h"
#include "text/template/jinja/operations.h"

namespace glint::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonOptions& options) : runtime_(runtime), options_(options) {}

  Status write(const Value& value) {
    GLINT_TRY_STATUS(runtime_.budget.spend_steps(1));
    if (out.size() > runtime_.budget.limits().max_output_bytes) {
      return invalid(
          str("the JSON of a value exceeds ", runtime_.budget.limits().max_output_bytes, " bytes"));
    }
    switch (value.kind()) {
      case Kind::kString:
        write_string(value.text());
        return Ok{};
      case Kind::kItems:
        if (!value.is_list() && !value.is_tuple()) return not_serializable(value);
        return write_list(value.items());
      case Kind::kDict:
        return write_dict(value.as_dict());
      case Kind::kUndefined:
      case Kind::kObject:
        return not_serializable(value);
      default:
        out += scalar(value);
        return Ok{};
    }
  }

  std::string out;

 private:
  static Error not_serializable(const Value& value) {
    return invalid("Object of type " + value.type_name() + " is not JSON serializable");
  }

  static std::string scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (value.is_bool()) return value.as_bool() ? "true" : "false";
    if (value.kind() == Kind::kBigInt) return value.big_digits();
    if (value.is_int()) return std::to_string(value.as_int());
    const double number = value.as_float();
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
    return format_double(number);
  }

  void write_string(std::string_view text) {
    if (!options_.ensure_ascii) return append_json_string(out, text);
    std::string quoted;
    append_json_string(quoted, text);
    for (std::size_t at = 0; at < quoted.size();) {
      const char32_t c = next_code_point(quoted, at);
      if (c < 0x80) {
        out += static_cast<char>(c);
      } else if (c < 0x10000) {
        out += formatted("\\u%04x", static_cast<unsigned>(c));
      } else {
        const unsigned rest = static_cast<unsigned>(c) - 0x10000;
        out += formatted("\\u%04x\\u%04x", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
      }
    }
  }

  Status new_line() {
    if (!options_.indent) return Ok{};
    const std::uint64_t size = options_.indent->size() * static_cast<std::uint64_t>(level_);
    GLINT_TRY_STATUS(runtime_.budget.spend_bytes(size));
    out += '\n';
    for (int i = 0; i < level_; ++i) out += *options_.indent;
    return Ok{};
  }

  Status write_list(const std::vector<Value>& items) {
    if (items.empty()) return out += "[]", Ok{};
    out += '[';
    ++level_;
    for (const Value& item : items) {
      if (&item != &items.front()) out += options_.item_separator;
      GLINT_TRY_STATUS(new_line());
      GLINT_TRY_STATUS(write(item));
    }
    --level_;
    GLINT_TRY_STATUS(new_line());
    out += ']';
    return Ok{};
  }

  Status write_dict(const Dict& dict) {
    if (dict.size() == 0) return out += "{}", Ok{};
    std::vector<Value> values, keys;
    for (const Dict::Entry& entry : dict.entries()) {
      values.push_back(entry.value);
      keys.push_back(entry.key);
    }
    if (options_.sort_keys) {
      const std::vector<Value> unsorted = keys;
      GLINT_TRY_STATUS(sort_by_keys(runtime_, values, unsorted, false));
      GLINT_TRY_STATUS(sort_by_keys(runtime_, keys, unsorted, false));
    }
    out += '{';
    ++level_;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (i) out += options_.item_separator;
      GLINT_TRY_STATUS(new_line());
      write_string(keys[i].is_string() ? keys[i].text() : scalar(keys[i]));
      out += options_.key_separator;
      GLINT_TRY_STATUS(write(values[i]));
    }
    --level_;
    GLINT_TRY_STATUS(new_line());
    out += '}';
    return Ok{};
  }

  Runtime& runtime_;
  const JsonOptions& options_;
  int level_ = 0;
};

}  // namespace

Result<std::string> to_json(Runtime& runtime, const Value& value, const JsonOptions& options) {
  JsonWriter writer(runtime, options);
  GLINT_TRY_STATUS(writer.write(value));
  GLINT_TRY_STATUS(runtime.budget.spend_bytes(writer.out.size()));
  return std::move(writer.out);
}

}  // namespace glint::jinja
