// {{ x | upper }}: jinja2's filters. Those that are generators there compute all at once here; the
// result can be taken once, as there.
#include <algorithm>
#include <cmath>

#include "base/contains.h"
#include "base/str.h"
#include "text/template/jinja/builtins.h"
#include "text/template/jinja/characters.h"
#include "text/template/jinja/operations.h"
#include "text/template/jinja/python_number.h"

namespace glint::jinja {
namespace {

bool flag(const Bound& bound, std::size_t index) { return truthy(bound.get(index, Value(false))); }

// markupsafe.soft_str: a text stays what it is.
Result<Value> soft_text(Runtime& runtime, const Value& value) {
  if (value.is_string()) return value;
  GLINT_TRY(std::string text, to_text(runtime, value));
  return Value(std::move(text));
}

// The meaning of `attribute="a.b.0"`: item["a"]["b"][0].
class AttributePath {
 public:
  // `attribute` is a text, an integer, or None for the item itself.
  static Result<AttributePath> parse(const Value& attribute) {
    AttributePath path;
    if (attribute.is_int()) {
      path.keys_.push_back(attribute);
    } else if (!attribute.is_none()) {
      if (!attribute.is_string())
        return invalid("an attribute of type " + attribute.type_name() + " is not supported");
      for (const std::string_view part : split(attribute.text(), '.')) {
        const std::optional<Json> index = parse_python_int(part);
        path.keys_.push_back(index && index->is_int() ? Value(index->as_int()) : Value(part));
      }
    }
    return path;
  }

  // With `otherwise`, each step that finds nothing gives it instead.
  Result<Value> get(Runtime& runtime, const Value& item, const Value& otherwise = {}) const {
    Value value = item;
    for (const Value& key : keys_) {
      GLINT_TRY(value, get_item(runtime, value, key));
      if (value.is_undefined() && !otherwise.is_none()) value = otherwise;
    }
    return value;
  }

 private:
  std::vector<Value> keys_;
};

// The key that sorting and `unique` compare: the attribute, in lower case unless case_sensitive.
Result<Value> comparison_key(Runtime& runtime, const Value& item, const AttributePath& path,
                             bool case_sensitive) {
  GLINT_TRY(Value key, path.get(runtime, item));
  if (case_sensitive || !key.is_string()) return key;
  return runtime.make_string(to_lower(key.text()));
}

// A method of texts as a filter of anything.
Result<Value> as_method(Runtime& runtime, const char* name, const Value& input,
                        const Arguments& arguments) {
  GLINT_TRY(const Value text, soft_text(runtime, input));
  return find_string_method(name)(runtime, text, arguments);
}

Result<Value> upper(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return as_method(runtime, "upper", input, arguments);
}

Result<Value> lower(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return as_method(runtime, "lower", input, arguments);
}

Result<Value> capitalize(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return as_method(runtime, "capitalize", input, arguments);
}

Result<Value> trim(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return as_method(runtime, "strip", input, arguments);
}

Result<Value> replace(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("replace", arguments, {"old", "new", "count?"}));
  GLINT_TRY(std::string text, to_text(runtime, input));
  GLINT_TRY(std::string old, to_text(runtime, bound[0]));
  GLINT_TRY(std::string replacement, to_text(runtime, bound[1]));
  Arguments texts = {{Value(std::move(old)), Value(std::move(replacement))}, {}};
  if (const Value count = bound.get(2, Value()); !count.is_none())
    texts.positional.push_back(count);
  return find_string_method("replace")(runtime, Value(std::move(text)), texts);
}

Result<Value> string(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("string", arguments, {}));
  return soft_text(runtime, input);
}

Result<Value> safe(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("safe", arguments, {}));
  GLINT_TRY(std::string text, to_text(runtime, input));
  return Value(std::move(text), true);
}

Result<Value> format(Runtime& runtime, const Value& input, const Arguments& arguments) {
  if (!arguments.named.empty()) return invalid("format() with keyword arguments is not supported");
  GLINT_TRY(const Value text, soft_text(runtime, input));
  GLINT_TRY(const Value values, runtime.make_items(Items::kTuple, arguments.positional));
  return format_percent(runtime, text, values);
}

Result<Value> tojson(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY(
      const Bound bound,
      Bound::bind("tojson", arguments, {"ensure_ascii?", "indent?", "separators?", "sort_keys?"}));
  JsonOptions options = {.ensure_ascii = flag(bound, 0), .sort_keys = flag(bound, 3)};
  if (const Value indent = bound.get(1, Value()); indent.is_string()) {
    options.indent = indent.text();
  } else if (!indent.is_none()) {
    GLINT_TRY(const Int width, require_int(indent));
    const auto blanks = static_cast<std::uint64_t>(std::max<Int>(width, 0));
    GLINT_TRY_STATUS(runtime.budget.spend_bytes(blanks));
    options.indent = std::string(blanks, ' ');
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

Result<Value> integer(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("int", arguments, {"default?", "base?"}));
  if (bound.has(1)) return invalid("the base of int is not supported");
  if (input.is_undefined()) return undefined_error(input);
  if (input.is_bool()) return Value(input.as_int());
  if (input.is_int() || input.kind() == Kind::kBigInt) return input;
  std::optional<Json> number;
  if (input.is_string()) {
    GLINT_TRY_STATUS(runtime.budget.spend_reading(input.text().size()));
    number = parse_python_int(input.text());
  }
  if (!number) {
    const std::optional<double> real = input.is_string()  ? parse_python_float(input.text())
                                       : input.is_float() ? input.as_float()
                                                          : std::optional<double>();
    if (!real || !std::isfinite(*real)) return bound.get(0, Value(0));
    number = truncated(*real);
  }
  return number->is_int() ? Value(number->as_int()) : Value(BigInt{number->as_big_number().text});
}

Result<Value> default_value(Runtime&, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("default", arguments, {"default_value?", "boolean?"}));
  const bool replaced = input.is_undefined() || (flag(bound, 1) && !truthy(input));
  return replaced ? bound.get(0, Value("")) : input;
}

Result<Value> length_of(Runtime&, const Value& input, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("length", arguments, {}));
  GLINT_TRY(const Int size, length(input));
  return Value(size);
}

Result<Value> list(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("list", arguments, {}));
  GLINT_TRY(std::vector<Value> values, to_vector(runtime, input));
  return runtime.make_list(std::move(values));
}

Result<Value> first(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("first", arguments, {}));
  GLINT_TRY(const std::vector<Value> values, to_vector(runtime, input));
  if (values.empty()) return Value(Undefined{.hint = "No first item, sequence was empty."});
  return values.front();
}

Result<Value> last(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("last", arguments, {}));
  GLINT_TRY_STATUS(length(input));  // a generator has no last item
  GLINT_TRY(const std::vector<Value> values, to_vector(runtime, input));
  if (values.empty()) return Value(Undefined{.hint = "No last item, sequence was empty."});
  return values.back();
}

Result<Value> join(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("join", arguments, {"d?", "attribute?"}));
  GLINT_TRY(const std::string separator, to_text(runtime, bound.get(0, Value(""))));
  GLINT_TRY(const AttributePath path, AttributePath::parse(bound.get(1, Value())));
  GLINT_TRY(std::vector<Value> values, to_vector(runtime, input));
  for (Value& value : values) {
    GLINT_TRY(value, path.get(runtime, value));
  }
  GLINT_TRY(const Value parts, runtime.make_list(std::move(values)));
  GLINT_TRY(std::string text, join_texts(runtime, separator, parts, true));
  return Value(std::move(text));
}

Result<Value> sort(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound,
            Bound::bind("sort", arguments, {"reverse?", "case_sensitive?", "attribute?"}));
  const Value attribute = bound.get(2, Value());
  if (attribute.is_string() && attribute.text().find(',') != std::string::npos)
    return invalid("sorting by several attributes is not supported");
  GLINT_TRY(const AttributePath path, AttributePath::parse(attribute));
  GLINT_TRY(std::vector<Value> values, to_vector(runtime, input));
  std::vector<Value> keys;
  for (const Value& value : values) {
    GLINT_TRY(Value key, comparison_key(runtime, value, path, flag(bound, 1)));
    keys.push_back(std::move(key));
  }
  GLINT_TRY_STATUS(sort_by_keys(runtime, values, keys, flag(bound, 0)));
  return runtime.make_list(std::move(values));
}

// The entries of a dict as pairs.
Result<std::vector<Value>> pairs_of(Runtime& runtime, const Value& dict) {
  std::vector<Value> pairs;
  for (const auto& [key, value] : dict.as_dict().entries()) {
    GLINT_TRY(Value pair, runtime.make_items(Items::kTuple, {key, value}));
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

Result<Value> dictsort(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound,
            Bound::bind("dictsort", arguments, {"case_sensitive?", "by?", "reverse?"}));
  GLINT_TRY(const std::string by, require_text(bound.get(1, Value("key")), "by"));
  if (by != "key" && by != "value")
    return invalid("You can only sort by either \"key\" or \"value\"");
  if (input.is_undefined()) return undefined_error(input);
  if (!input.is_dict())
    return invalid("'" + input.type_name() + "' object has no attribute 'items'");
  GLINT_TRY(const AttributePath path, AttributePath::parse(Value(by == "key" ? 0 : 1)));
  GLINT_TRY(std::vector<Value> pairs, pairs_of(runtime, input));
  std::vector<Value> keys;
  for (const Value& pair : pairs) {
    GLINT_TRY(Value key, comparison_key(runtime, pair, path, flag(bound, 0)));
    keys.push_back(std::move(key));
  }
  GLINT_TRY_STATUS(sort_by_keys(runtime, pairs, keys, flag(bound, 2)));
  return runtime.make_list(std::move(pairs));
}

using Values = std::vector<Value>;

Result<Values> compute_items(Runtime& runtime, const Value& input) {
  if (input.is_undefined()) return Values();
  if (!input.is_dict()) return invalid("Can only get item pairs from a mapping.");
  return pairs_of(runtime, input);
}

Result<Value> items(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("items", arguments, {}));
  return runtime.make_generator(compute_items(runtime, input));
}

// The items of what map and select work on; a false value has none.
Result<Values> items_if_true(Runtime& runtime, const Value& input) {
  return truthy(input) ? to_vector(runtime, input) : Values();
}

// {{ x | map(attribute="name", default="") }}
Result<Values> map_attribute(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("map", arguments, {"attribute", "default?"}));
  GLINT_TRY(const AttributePath path, AttributePath::parse(bound[0]));
  GLINT_TRY(Values values, items_if_true(runtime, input));
  for (Value& value : values) {
    GLINT_TRY(value, path.get(runtime, value, bound.get(1, Value())));
  }
  return values;
}

// {{ x | map("upper") }}: the first argument names a filter, the others are its own.
Result<Values> compute_map(Runtime& runtime, const Value& input, const Arguments& arguments) {
  if (arguments.positional.empty()) return map_attribute(runtime, input, arguments);
  GLINT_TRY(const std::string name, require_text(arguments.positional[0], "the filter of map"));
  const Filter filter = find_filter(name);
  if (!filter) return unsupported_filter(name);
  const Arguments rest = {{arguments.positional.begin() + 1, arguments.positional.end()},
                          arguments.named};
  GLINT_TRY(Values values, items_if_true(runtime, input));
  for (Value& value : values) {
    GLINT_TRY(value, filter(runtime, value, rest));
  }
  return values;
}

Result<Value> map(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return runtime.make_generator(compute_map(runtime, input, arguments));
}

// {{ x | select("string") }}, {{ x | selectattr("name", "eq", 1) }}: the items whose (attribute's)
// test gives `wanted`. Without a test: whose value is true.
Result<Values> compute_select(Runtime& runtime, const Value& input, const Arguments& arguments,
                              bool wanted, bool of_attribute) {
  Values rest = arguments.positional;
  AttributePath path;
  if (of_attribute) {
    if (rest.empty()) return invalid("Missing parameter for attribute name");
    GLINT_TRY(path, AttributePath::parse(rest[0]));
    rest.erase(rest.begin());
  }
  Test test = nullptr;
  if (!rest.empty()) {
    GLINT_TRY(const std::string name, require_text(rest[0], "the test of select"));
    test = find_test(name);
    if (!test) return unsupported_test(name);
    rest.erase(rest.begin());
  }
  const Arguments of_test = {std::move(rest), arguments.named};
  GLINT_TRY(const Values values, items_if_true(runtime, input));
  Values selected;
  for (const Value& value : values) {
    GLINT_TRY(const Value tested, path.get(runtime, value));
    bool holds = truthy(tested);
    if (test) {
      GLINT_TRY(holds, test(runtime, tested, of_test));
    }
    if (holds == wanted) selected.push_back(value);
  }
  return selected;
}

template <bool kWanted, bool kOfAttribute>
Result<Value> select(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return runtime.make_generator(compute_select(runtime, input, arguments, kWanted, kOfAttribute));
}

Result<Values> compute_unique(Runtime& runtime, const Value& input, const AttributePath& path,
                              bool case_sensitive) {
  GLINT_TRY(const Values values, to_vector(runtime, input));
  Values kept, keys;
  for (const Value& value : values) {
    GLINT_TRY(const Value key, comparison_key(runtime, value, path, case_sensitive));
    GLINT_TRY_STATUS(require_hashable(runtime, key));
    bool seen = false;
    for (std::size_t i = 0; i < keys.size() && !seen; ++i) {
      GLINT_TRY(seen, equals(runtime, keys[i], key));
    }
    if (seen) continue;
    keys.push_back(key);
    kept.push_back(value);
  }
  return kept;
}

Result<Value> unique(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("unique", arguments, {"case_sensitive?", "attribute?"}));
  GLINT_TRY(const AttributePath path, AttributePath::parse(bound.get(1, Value())));
  return runtime.make_generator(compute_unique(runtime, input, path, flag(bound, 0)));
}

constexpr Named<Filter> kFilters[] = {
    {"capitalize", capitalize},
    {"count", length_of},
    {"d", default_value},
    {"default", default_value},
    {"dictsort", dictsort},
    {"first", first},
    {"format", format},
    {"int", integer},
    {"items", items},
    {"join", join},
    {"last", last},
    {"length", length_of},
    {"list", list},
    {"lower", lower},
    {"map", map},
    {"reject", select<false, false>},
    {"rejectattr", select<false, true>},
    {"replace", replace},
    {"safe", safe},
    {"select", select<true, false>},
    {"selectattr", select<true, true>},
    {"sort", sort},
    {"string", string},
    {"tojson", tojson},
    {"trim", trim},
    {"unique", unique},
    {"upper", upper},
};

}  // namespace

Filter find_filter(std::string_view name) { return find_named(kFilters, name); }

bool lacks_filter(std::string_view name) {
  static constexpr std::string_view kNames =
      "abs attr batch center e escape filesizeformat float forceescape groupby indent max min "
      "pprint random reverse round slice striptags sum title truncate urlencode urlize wordcount "
      "wordwrap xmlattr";
  return glint::contains(glint::split(kNames, ' '), name);
}

Error unsupported_filter(std::string_view name) {
  return invalid(str("the filter '", name, "' is not supported; there are ", join_names(kFilters)));
}

}  // namespace glint::jinja
