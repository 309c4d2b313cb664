// Filters that make texts.
#include <algorithm>

#include "base/str.h"
#include "text/jinja/characters.h"
#include "text/jinja/filters.h"
#include "text/jinja/format.h"
#include "text/jinja/methods.h"
#include "text/unicode.h"

namespace glint::jinja {
namespace {

// markupsafe.soft_str: markup stays markup.
Result<Value> soft_text(Runtime& runtime, const Value& value) {
  if (value.is_string()) return value;
  GLINT_TRY(std::string text, to_text(runtime, value));
  return Value(std::move(text));
}

template <std::string (*kChange)(std::string_view)>
Result<Value> change(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("filter", arguments, {}));
  GLINT_TRY(const Value text, soft_text(runtime, input));
  GLINT_TRY_STATUS(runtime.budget.spend_reading(text.text().size()));
  return runtime.make_string(kChange(text.text()), text.is_markup());
}

// Words begin after blanks, "-" and opening brackets, unlike those of str.title.
std::string title(std::string_view text) {
  std::string out;
  std::size_t start = 0;
  const auto flush = [&](std::size_t end) {
    if (end == start) return;
    const std::size_t first = start + byte_offset(text.substr(start), 1);
    out += to_upper(text.substr(start, first - start));
    out += to_lower(text.substr(first, end - first));
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t next = at + byte_offset(text.substr(at), 1);
    const std::string_view c = text.substr(at, next - at);
    if (c.find_first_of("-({[<") != c.npos || all_in_class(kSpace, c)) {
      flush(at);
      out += c;
      start = next;
    }
    at = next;
  }
  flush(text.size());
  return out;
}

Result<Value> string_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("string", arguments, {}));
  return soft_text(runtime, input);
}

Result<Value> trim(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("trim", arguments, {"chars?"}));
  GLINT_TRY(const Value text, soft_text(runtime, input));
  return find_string_method("strip")(runtime, text, {{bound.get(0, Value())}, {}});
}

Result<Value> center(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("center", arguments, {"width?"}));
  GLINT_TRY(const Value text, soft_text(runtime, input));
  return find_string_method("center")(runtime, text, {{bound.get(0, Value(80))}, {}});
}

Result<Value> replace(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("replace", arguments, {"old", "new", "count?"}));
  GLINT_TRY(const std::string text, to_text(runtime, input));
  GLINT_TRY(const std::string old, to_text(runtime, *bound[0]));
  GLINT_TRY(const std::string replacement, to_text(runtime, *bound[1]));
  Int count = -1;
  if (!bound.get(2, Value()).is_none()) {
    GLINT_TRY(count, require_int(*bound[2]));
  }
  GLINT_TRY(std::string out, replace_text(runtime, text, old, replacement, count));
  return Value(std::move(out));
}

Result<Value> format(Runtime& runtime, const Value& input, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    return invalid("can't handle positional and keyword arguments at the same time");
  }
  GLINT_TRY(const Value text, soft_text(runtime, input));
  if (arguments.named.empty()) {
    GLINT_TRY(const Value values, runtime.make_tuple(arguments.positional));
    return format_percent(runtime, text, values);
  }
  Dict named;
  for (const auto& [name, value] : arguments.named) named.set(name, name, value);
  GLINT_TRY(const Value values, runtime.make_dict(std::move(named)));
  return format_percent(runtime, text, values);
}

Result<Value> indent(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("indent", arguments, {"width?", "first?", "blank?"}));
  if (input.is_undefined()) return undefined_error(input);
  GLINT_TRY(std::string text, require_text(input, "what indent works on"));
  std::string space;
  if (bound.has(0) && bound[0]->is_string()) {
    space = bound[0]->text();
  } else {
    GLINT_TRY(const Int width, require_int(bound.get(0, Value(4))));
    GLINT_TRY(space, pad(runtime, Value(""), width, " ", Side::kLeft));
  }
  text += '\n';
  const bool indents_blank = truthy(bound.get(2, Value(false)));
  std::string out;
  bool is_first = true;
  for (const std::string_view line : split_lines(text, false)) {
    GLINT_TRY_STATUS(runtime.budget.spend_bytes(space.size() + line.size() + 1));
    if (!is_first) out += '\n';
    if (is_first ? truthy(bound.get(1, Value(false))) : indents_blank || !line.empty())
      out += space;
    out += line;
    is_first = false;
  }
  return Value(std::move(out), input.is_markup());
}

Result<Value> truncate(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound,
            Bound::bind("truncate", arguments, {"length?", "killwords?", "end?", "leeway?"}));
  const Value length = bound.get(0, Value(255));
  const Value leeway = bound.get(3, Value()).is_none() ? Value(5) : *bound[3];
  GLINT_TRY(const std::string end, require_text(bound.get(2, Value("...")), "end"));
  const std::optional<double> limit = to_double(length), slack = to_double(leeway);
  if (!limit || !slack) return invalid("length and leeway must be numbers");
  const Int end_length = static_cast<Int>(count_code_points(end));
  if (*limit < static_cast<double>(end_length))
    return invalid(str("expected length >= ", end_length));
  if (*slack < 0) return invalid("expected leeway >= 0");
  GLINT_TRY(const Int size, jinja::length(runtime, input));
  if (static_cast<double>(size) <= *limit + *slack) return input;
  GLINT_TRY(const Int kept_length, require_int(length));
  GLINT_TRY(const std::string text, require_text(input, "what truncate works on"));
  std::string_view kept = text;
  kept = kept.substr(0, byte_offset(text, static_cast<std::size_t>(kept_length - end_length)));
  if (!truthy(bound.get(1, Value(false)))) {
    kept = kept.substr(0, std::min(kept.rfind(' '), kept.size()));
  }
  return runtime.make_string(std::string(kept) + end, input.is_markup());
}

Result<Value> word_count(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("wordcount", arguments, {}));
  GLINT_TRY(const Value text, soft_text(runtime, input));
  GLINT_TRY_STATUS(runtime.budget.spend_reading(text.text().size()));
  Int words = 0;
  bool in_word = false;
  for (std::size_t at = 0; at < text.text().size();) {
    const char32_t c = next_code_point(text.text(), at);
    const bool is_word = c == '_' || in_class(kAlpha, c) || in_class(kNumeric, c);
    words += is_word && !in_word;
    in_word = is_word;
  }
  return Value(words);
}

Result<Value> escape_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("escape", arguments, {}));
  return escape(runtime, input);
}

Result<Value> force_escape(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("forceescape", arguments, {}));
  GLINT_TRY(const std::string text, to_text(runtime, input));
  return runtime.make_string(escape_html(text), true);
}

Result<Value> safe(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("safe", arguments, {}));
  GLINT_TRY(std::string text, to_text(runtime, input));
  return Value(std::move(text), true);
}

// urllib.parse.quote; in a query string the slash is quoted too and a blank is "+".
std::string quote_url(std::string_view text, bool in_query) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !in_query);
    if (plain) {
      out += c;
    } else if (c == ' ' && in_query) {
      out += '+';
    } else {
      out += '%';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

Result<Value> url_encode(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("urlencode", arguments, {}));
  if (input.is_string() || !is_iterable(input)) {
    GLINT_TRY(const std::string text, to_text(runtime, input));
    return runtime.make_string(quote_url(text, false));
  }
  std::string out;
  const auto add = [&](const Value& key, const Value& value) -> Status {
    GLINT_TRY(const std::string name, to_text(runtime, key));
    GLINT_TRY(const std::string text, to_text(runtime, value));
    GLINT_TRY_STATUS(runtime.budget.spend_bytes(3 * (name.size() + text.size())));
    out += str(out.empty() ? "" : "&", quote_url(name, true), "=", quote_url(text, true));
    return Ok{};
  };
  if (input.is_dict()) {
    for (const Dict::Entry& entry : input.as_dict().entries())
      GLINT_TRY_STATUS(add(entry.key, entry.value));
    return Value(std::move(out));
  }
  GLINT_TRY(const std::vector<Value> pairs, to_vector(runtime, input));
  for (const Value& pair : pairs) {
    GLINT_TRY(const std::vector<Value> parts, to_vector(runtime, pair));
    if (parts.size() != 2)
      return invalid(str("expected pairs of name and value, got ", parts.size(), " values"));
    GLINT_TRY_STATUS(add(parts[0], parts[1]));
  }
  return Value(std::move(out));
}

Result<Value> xml_attributes(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("xmlattr", arguments, {"autospace?"}));
  if (input.is_undefined()) return undefined_error(input);
  if (!input.is_dict())
    return invalid("'" + input.type_name() + "' object has no attribute 'items'");
  std::string out;
  for (const auto& [key, value] : input.as_dict().entries()) {
    if (value.is_none() || value.is_undefined()) continue;
    GLINT_TRY(const std::string name, require_text(key, "an attribute name"));
    if (name.find_first_of(" \t\n\r\f\v/>=") != name.npos) {
      return invalid("Invalid character in attribute name: " + string_repr(name));
    }
    GLINT_TRY(const Value escaped, escape(runtime, value));
    if (!out.empty()) out += ' ';
    out += escape_html(name) + "=\"" + escaped.text() + '"';
  }
  if (truthy(bound.get(0, Value(true))) && !out.empty()) out.insert(0, 1, ' ');
  return runtime.make_string(std::move(out));
}

// &lt; and the like, and &#65; and &#x41;. Other names of HTML stay.
std::string unescape_html(std::string_view text) {
  static constexpr std::pair<std::string_view, char32_t> kNames[] = {
      {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}, {"nbsp", 0xa0}};
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::size_t end = text[at] == '&' ? text.substr(at, 12).find(';') : text.npos;
    char32_t c = 0;
    if (end != text.npos) {
      const std::string name(text.substr(at + 1, end - 1));
      for (const auto& [known, image] : kNames) {
        if (name == known) c = image;
      }
      const bool hex = name.size() > 2 && (name[1] | 0x20) == 'x';
      const std::string digits = name.empty() || name[0] != '#' ? "" : name.substr(hex ? 2 : 1);
      const char* allowed = hex ? "0123456789abcdefABCDEF" : "0123456789";
      if (!digits.empty() && digits.find_first_not_of(allowed) == digits.npos) {
        c = static_cast<char32_t>(std::stoul(digits, nullptr, hex ? 16 : 10));
        if (c == 0 || c >= 0x110000 || (c >= 0xd800 && c < 0xe000)) c = 0xfffd;
      }
    }
    if (c) {
      append_utf8(out, c);
      at += end;
    } else {
      out += text[at];
    }
  }
  return out;
}

Result<Value> strip_tags(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("striptags", arguments, {}));
  GLINT_TRY(std::string text, to_text(runtime, input));
  std::string kept;
  std::size_t at = 0;
  for (std::size_t open; (open = text.find('<', at)) != text.npos;) {
    const bool is_comment = text.compare(open, 4, "<!--") == 0;
    const std::size_t close = is_comment ? find_text(text, "-->", open + 4) : text.find('>', open);
    if (close == text.npos) break;  // what is not closed stays
    kept.append(text, at, open - at);
    at = close + (is_comment ? 3 : 1);
  }
  text = kept + text.substr(at);
  GLINT_TRY(const Value words, find_split_method("split")(runtime, Value(std::move(text)), {}));
  GLINT_TRY(const std::string joined, join_texts(runtime, " ", words, false));
  return runtime.make_string(unescape_html(joined));
}

Result<Value> to_json_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY(
      const Bound bound,
      Bound::bind("tojson", arguments, {"ensure_ascii?", "indent?", "separators?", "sort_keys?"}));
  JsonOptions options;
  options.ensure_ascii = truthy(bound.get(0, Value(false)));
  options.sort_keys = truthy(bound.get(3, Value(false)));
  if (const Value indent = bound.get(1, Value()); indent.is_string()) {
    options.indent = indent.text();
  } else if (!indent.is_none()) {
    GLINT_TRY(const Int width, require_int(indent));
    GLINT_TRY(options.indent, pad(runtime, Value(""), width, " ", Side::kLeft));
  }
  if (options.indent) options.item_separator = ",";
  if (const Value separators = bound.get(2, Value()); !separators.is_none()) {
    GLINT_TRY(const std::vector<Value> pair, to_vector(runtime, separators));
    if (pair.size() != 2) return invalid("separators must be a pair of texts");
    GLINT_TRY(options.item_separator, require_text(pair[0], "a separator"));
    GLINT_TRY(options.key_separator, require_text(pair[1], "a separator"));
  }
  GLINT_TRY(std::string text, to_json(runtime, input, options));
  return Value(std::move(text));
}

Result<Value> pprint(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("pprint", arguments, {}));
  GLINT_TRY(std::string text, pretty_print(runtime, input));
  return Value(std::move(text));
}

}  // namespace

Result<Value> ignore_case(Runtime& runtime, const Value& value) {
  if (!value.is_string()) return value;
  return runtime.make_string(to_lower(value.text()));
}

Filter find_text_filter(std::string_view name) {
  static constexpr Named<Filter> kFilters[] = {
      {"capitalize", change<to_capitalized>},
      {"center", center},
      {"e", escape_filter},
      {"escape", escape_filter},
      {"forceescape", force_escape},
      {"format", format},
      {"indent", indent},
      {"lower", change<to_lower>},
      {"pprint", pprint},
      {"replace", replace},
      {"safe", safe},
      {"string", string_filter},
      {"striptags", strip_tags},
      {"title", change<title>},
      {"tojson", to_json_filter},
      {"trim", trim},
      {"truncate", truncate},
      {"upper", change<to_upper>},
      {"urlencode", url_encode},
      {"wordcount", word_count},
      {"xmlattr", xml_attributes},
  };
  return find_named(kFilters, name);
}

}  // namespace glint::jinja
