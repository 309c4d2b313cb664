#include "base/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>

#include "base/file.h"
#include "base/parse_number.h"
#include "base/str.h"

namespace glint {
namespace {

constexpr std::size_t kMaxDepth = 32;
constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;

Json integer_of(std::uint64_t value) {
  const auto as_signed = static_cast<std::int64_t>(value);
  return as_signed >= 0 ? Json(as_signed) : Json(Json::BigNumber{std::to_string(value)});
}

// Decimal digits after a sign or none, 0x and hexadecimal ones, 0o and octal ones.
std::optional<Json> parse_integer(std::string_view text) {
  if (text.starts_with("0x") || text.starts_with("0o")) {
    std::uint64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data() + 2, end, value, text[1] == 'x' ? 16 : 8);
    return at == end && error == std::errc() ? std::optional(integer_of(value)) : std::nullopt;
  }
  const bool is_negative = text.starts_with('-');
  std::string_view digits = text.substr(is_negative || text.starts_with('+'));
  if (digits.empty() || digits.find_first_not_of("0123456789") != digits.npos) return {};
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size() - 1));
  const std::string written = str(is_negative ? "-" : "", digits);
  const auto value = parse_number<std::int64_t>(written);
  return value ? Json(*value) : Json(Json::BigNumber{written});
}

// A plain scalar's value by YAML 1.2's core schema, plus the yes/no/on/off of YAML 1.1, which
// people write.
Json plain_value(const std::string& text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return {};
  for (const char* yes : {"true", "True", "TRUE", "yes", "on"}) {
    if (text == yes) return true;
  }
  for (const char* no : {"false", "False", "FALSE", "no", "off"}) {
    if (text == no) return false;
  }
  if (std::optional<Json> integer = parse_integer(text)) return *std::move(integer);
  const char* begin = text.data() + (text[0] == '+');
  const char* end = text.data() + text.size();
  double number = 0;
  const char first = begin[*begin == '-'];
  const bool numeric = first != 'i' && first != 'n';  // "inf" and "nan" are texts
  if (const auto [at, error] = std::from_chars(begin, end, number);
      numeric && at == end && error == std::errc())
    return number;
  return text;
}

// Builds the value from the parser's events: aliases are seen before they are expanded.
class Builder : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "aliases (*name) are not supported");
  }
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { add(mark, Json(), "null"); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& value) override {
    if (tag != "?" && tag != "!")
      return refuse(mark, "tags (" + quoted(tag) + ") are not supported");
    add(mark, tag == "?" ? plain_value(value) : Json(value), value);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    open(mark, Json(Json::Array{}));
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    open(mark, Json(Json::Object{}));
  }
  void OnMapEnd() override { close(); }

  Json root;
  std::string error;  // the first one

 private:
  struct Level {
    Json value;
    std::string key = {};
    bool has_key = false;
  };

  void refuse(const YAML::Mark& mark, const std::string& why) {
    if (error.empty()) error = str("line ", mark.line + 1, ": ", why);
  }

  // `text` is the scalar as written, for keys.
  void add(const YAML::Mark& mark, Json value, const std::string& text) {
    if (!error.empty()) return;
    if (levels_.empty()) {
      root = std::move(value);
      return;
    }
    Level& level = levels_.back();
    if (level.value.is_array()) {
      level.value.as_array().push_back(std::move(value));
      return;
    }
    if (!level.has_key) {
      if (level.value.find(text) != nullptr)
        return refuse(mark, "key " + quoted(text) + " is repeated");
      level.key = text;
      level.has_key = true;
      return;
    }
    level.value.as_object().emplace_back(std::move(level.key), std::move(value));
    level.has_key = false;
  }

  void open(const YAML::Mark& mark, Json value) {
    if (levels_.size() >= kMaxDepth) refuse(mark, str("nested deeper than ", kMaxDepth));
    if (!levels_.empty() && levels_.back().value.is_object() && !levels_.back().has_key)
      refuse(mark, "a key must be a text");
    if (!error.empty()) {
      ++ignored_;
      return;
    }
    levels_.push_back({std::move(value)});
  }

  void close() {
    if (ignored_ > 0) {
      --ignored_;
      return;
    }
    if (!error.empty()) return;
    Json value = std::move(levels_.back().value);
    levels_.pop_back();
    add({}, std::move(value), "");
  }

  std::vector<Level> levels_;
  int ignored_ = 0;
};

}  // namespace

Result<Json> parse_yaml(std::string_view text) {
  std::istringstream stream{std::string(text)};
  Builder builder;
  try {
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    Builder second;
    if (builder.error.empty() && parser.HandleNextDocument(second))
      return invalid("more than one document");
  } catch (const YAML::Exception& e) {
    if (builder.error.empty()) return invalid(str("line ", e.mark.line + 1, ": ", e.msg));
  }
  if (!builder.error.empty()) return invalid(builder.error);
  return std::move(builder.root);
}

Result<Json> read_yaml_file(const std::string& path) {
  GLINT_TRY(const std::string text, read_file(path, kMaxFileBytes));
  return parse_yaml(text).in(path);
}

}  // namespace glint
