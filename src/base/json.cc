#include "base/json.h"

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <unordered_map>

#include "base/file.h"
#include "base/str.h"
#include "base/utf8.h"

namespace glint {
namespace {

// Builds a Json from the events of boost::json::basic_parser.
class Builder {
 public:
  constexpr static std::size_t max_object_size = std::size_t(-1);
  constexpr static std::size_t max_array_size = std::size_t(-1);
  constexpr static std::size_t max_key_size = std::size_t(-1);
  constexpr static std::size_t max_string_size = std::size_t(-1);
  using Code = boost::json::error_code;

  explicit Builder(const JsonLimits& limits) : limits_(limits) {}

  Json take() { return std::move(root_); }
  const std::string& problem() const { return problem_; }

  bool on_document_begin(Code&) { return true; }
  bool on_document_end(Code&) { return true; }
  bool on_object_begin(Code&) { return open(Json::Object{}); }
  bool on_array_begin(Code&) { return open(Json::Array{}); }
  bool on_array_end(std::size_t, Code& ec) { return close(ec); }
  bool on_object_end(std::size_t, Code& ec) {
    Json::Object& members = stack_.back().value.as_object();
    if (!merge_repeated_keys(members)) return fail(ec, "repeated key " + quoted(repeated_));
    return close(ec);
  }
  bool on_key_part(std::string_view part, std::size_t, Code&) { return text_ += part, true; }
  bool on_key(std::string_view part, std::size_t, Code& ec) {
    if (++num_members_ > limits_.max_members) return fail(ec, "too many members of objects");
    text_ += part;
    stack_.back().key = std::exchange(text_, {});
    return true;
  }
  bool on_string_part(std::string_view part, std::size_t, Code&) { return text_ += part, true; }
  bool on_string(std::string_view part, std::size_t, Code& ec) {
    text_ += part;
    return add(Json(std::exchange(text_, {})), ec);
  }
  bool on_number_part(std::string_view part, Code&) { return text_ += part, true; }
  bool on_int64(std::int64_t, std::string_view part, Code& ec) { return number(part, ec); }
  bool on_uint64(std::uint64_t, std::string_view part, Code& ec) { return number(part, ec); }
  bool on_double(double, std::string_view part, Code& ec) { return number(part, ec); }
  bool on_bool(bool value, Code& ec) { return add(Json(value), ec); }
  bool on_null(Code& ec) { return add(Json(), ec); }
  bool on_comment_part(std::string_view, Code&) { return true; }
  bool on_comment(std::string_view, Code&) { return true; }

 private:
  struct Level {
    Json value;
    std::string key;  // of the member that comes next
  };

  bool open(Json value) {
    stack_.push_back({std::move(value), {}});
    return true;
  }

  bool close(Code& ec) {
    Json value = std::move(stack_.back().value);
    stack_.pop_back();
    return add(std::move(value), ec);
  }

  bool add(Json value, Code& ec) {
    if (++num_values_ > limits_.max_values) return fail(ec, "too many values");
    if (stack_.empty()) {
      root_ = std::move(value);
    } else if (Level& level = stack_.back(); level.value.is_array()) {
      level.value.as_array().push_back(std::move(value));
    } else {
      level.value.as_object().emplace_back(std::move(level.key), std::move(value));
    }
    return true;
  }

  bool number(std::string_view part, Code& ec) {
    text_ += part;
    const std::string text = std::exchange(text_, {});
    const char* end = text.data() + text.size();
    if (text.find_first_of(".eE") == std::string::npos) {
      std::int64_t value = 0;
      const auto [at, error] = std::from_chars(text.data(), end, value);
      // "-0" is the integer 0 in Python too.
      if (error == std::errc() && at == end) return add(Json(value), ec);
      return add(Json(Json::BigNumber{text}), ec);
    }
    // The grammar has seen to it that nothing else is there. As Python: 1e-400 is 0.
    const double value = std::strtod(text.c_str(), nullptr);
    return add(std::isfinite(value) ? Json(value) : Json(Json::BigNumber{text}), ec);
  }

  bool fail(Code& ec, std::string problem) {
    problem_ = std::move(problem);
    ec = boost::json::error::syntax;
    return false;
  }

  // Python's dict: the first place, the last value. False if that is not allowed and there is one.
  bool merge_repeated_keys(Json::Object& members) {
    std::unordered_map<std::string_view, std::size_t> place;
    std::vector<std::pair<std::size_t, std::size_t>> repeated;  // (first, later)
    if (members.size() <= 8) {
      for (std::size_t i = 1; i < members.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
          if (members[j].first == members[i].first) {
            repeated.emplace_back(j, i);
            break;
          }
        }
      }
    } else {
      place.reserve(members.size());
      for (std::size_t i = 0; i < members.size(); ++i) {
        const auto [at, inserted] = place.emplace(members[i].first, i);
        if (!inserted) repeated.emplace_back(at->second, i);
      }
    }
    if (repeated.empty()) return true;
    if (!limits_.allow_duplicate_keys) {
      repeated_ = members[repeated.front().first].first;
      return false;
    }
    std::vector<bool> drop(members.size());
    for (const auto& [first, later] : repeated) {
      members[first].second = std::move(members[later].second);
      drop[later] = true;
    }
    Json::Object kept;
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (!drop[i]) kept.push_back(std::move(members[i]));
    }
    members = std::move(kept);
    return true;
  }

  const JsonLimits limits_;
  Json root_;
  std::vector<Level> stack_;
  std::size_t num_values_ = 0, num_members_ = 0;
  std::string text_;  // parts of the key, string or number being read
  std::string problem_, repeated_;
};

void append_value(std::string& out, const Json& value, JsonStyle style, int indent) {
  const char* comma = style == JsonStyle::kPython ? ", " : ",";
  const char* colon = style == JsonStyle::kCompact ? ":" : ": ";
  const auto new_line = [&](int level) {
    if (style == JsonStyle::kIndent2) out.append("\n").append(2 * level, ' ');
  };
  if (value.is_null()) {
    out += "null";
  } else if (value.is_bool()) {
    out += value.as_bool() ? "true" : "false";
  } else if (value.is_int()) {
    out += std::to_string(value.as_int());
  } else if (value.is_big_number()) {
    out += value.as_big_number().text;
  } else if (value.is_double()) {
    const double d = value.as_double();
    // As Python's json: not JSON, but what every peer prints and reads.
    out += std::isnan(d)   ? "NaN"
           : std::isinf(d) ? (d > 0 ? "Infinity" : "-Infinity")
                           : format_double(d);
  } else if (value.is_string()) {
    append_json_string(out, value.as_string());
  } else if (value.is_array()) {
    const Json::Array& items = value.as_array();
    out += '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i) out += comma;
      new_line(indent + 1);
      append_value(out, items[i], style, indent + 1);
    }
    if (!items.empty()) new_line(indent);
    out += ']';
  } else {
    const Json::Object& members = value.as_object();
    out += '{';
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (i) out += comma;
      new_line(indent + 1);
      append_json_string(out, members[i].first);
      out += colon;
      append_value(out, members[i].second, style, indent + 1);
    }
    if (!members.empty()) new_line(indent);
    out += '}';
  }
}

}  // namespace

double Json::as_double() const {
  if (is_int()) return static_cast<double>(as_int());
  if (is_big_number()) return std::strtod(as_big_number().text.c_str(), nullptr);
  return std::get<double>(value_);
}

const Json* Json::find(std::string_view key) const {
  if (!is_object()) return nullptr;
  for (const Member& member : as_object()) {
    if (member.first == key) return &member.second;
  }
  return nullptr;
}

void Json::set(std::string_view key, Json value) {
  if (is_null()) value_ = Object{};
  for (Member& member : as_object()) {
    if (member.first == key) {
      member.second = std::move(value);
      return;
    }
  }
  as_object().emplace_back(std::string(key), std::move(value));
}

const char* Json::kind() const {
  if (is_big_number() && !as_big_number().is_integer()) return "a number";
  static constexpr const char* kKinds[] = {"null",       "a boolean", "an integer", "a number",
                                           "an integer", "a text",    "a list",     "an object"};
  return kKinds[value_.index()];
}

namespace {

// "\ud83d" without the escape that completes it: where a text was cut within a character.
bool ends_in_half_a_pair(std::string_view read) {
  if (read.ends_with('\\')) read.remove_suffix(1);
  if (read.size() < 6) return false;
  const std::string escape = lower(read.substr(read.size() - 6));
  return escape.starts_with("\\ud") &&
         std::string_view("89ab").find(escape[3]) != std::string::npos;
}

}  // namespace

Result<Json> parse_json(std::string_view text, const JsonLimits& limits) {
  // The byte order mark that some editors put before UTF-8.
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  boost::json::parse_options options;
  options.max_depth = static_cast<std::size_t>(limits.max_depth);
  boost::json::basic_parser<Builder> parser(options, limits);
  boost::json::error_code error;
  std::size_t consumed = parser.write_some(false, text.data(), text.size(), error);
  std::string problem = parser.handler().problem();
  if (!error && consumed < text.size()) problem = "more text after the value";
  if (error && problem.empty()) problem = error.message();
  if (problem.empty()) return parser.handler().take();
  consumed = std::min(consumed, text.size());
  const std::string_view before = text.substr(0, consumed);
  if (error == boost::json::error::syntax && ends_in_half_a_pair(before))
    problem = "half of a surrogate pair, which is no character";
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t line_start = before.rfind('\n');
  const std::size_t column = before.size() - (line_start == before.npos ? 0 : line_start + 1) + 1;
  return invalid(str("line ", line, ", column ", column, ": ", problem));
}

Result<Json> read_json_file(const std::string& path, const JsonLimits& limits) {
  GLINT_TRY(const std::string text, read_file(path, std::size_t{256} << 20));
  return parse_json(text, limits).in(path);
}

std::string dump_json(const Json& value, JsonStyle style) {
  std::string out;
  append_value(out, value, style, 0);
  return out;
}

void append_json_escaped(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += "\\u00";
          out += kHex[static_cast<unsigned char>(c) >> 4];
          out += kHex[c & 15];
        } else {
          out += c;
        }
    }
  }
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  // Names of files need not be UTF-8; JSON is.
  append_json_escaped(out, is_valid_utf8(text) ? text : std::string_view(lossy_utf8(text)));
  out += '"';
}

std::string format_double(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[40];
  // Python switches to an exponent at 1e16 and below 1e-4.
  const double magnitude = std::fabs(value);
  const bool fixed = magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value,
                                 fixed ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(buffer, end.ptr);
  if (fixed && text.find('.') == std::string::npos) text += ".0";
  return text;
}

}  // namespace glint
