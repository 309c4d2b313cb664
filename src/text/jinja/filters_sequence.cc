// Filters on sequences, and default and attr; all answer at once, unlike those of filters_lazy.cc.
#include <algorithm>

#include "text/jinja/filters.h"
#include "text/jinja/methods.h"

namespace glint::jinja {
namespace {

bool flag(const Bound& bound, std::size_t index) { return truthy(bound.get(index, Value(false))); }

Result<Value> default_filter(Runtime&, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("default", arguments, {"default_value?", "boolean?"}));
  const bool replaced = input.is_undefined() || (flag(bound, 1) && !truthy(input));
  return replaced ? bound.get(0, Value("")) : input;
}

Result<Value> length_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("length", arguments, {}));
  GLINT_TRY(const Int size, length(runtime, input));
  return Value(size);
}

Result<Value> first(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("first", arguments, {}));
  GLINT_TRY(const std::shared_ptr<Iterator> items, iterate(runtime, input));
  GLINT_TRY(const std::optional<Value> item, items->next());
  return item ? *item : Value(Undefined{.hint = "No first item, sequence was empty."});
}

Result<Value> last(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("last", arguments, {}));
  GLINT_TRY(const std::shared_ptr<Iterator> items, reversed(runtime, input));
  GLINT_TRY(const std::optional<Value> item, items->next());
  return item ? *item : Value(Undefined{.hint = "No last item, sequence was empty."});
}

Result<Value> list(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("list", arguments, {}));
  GLINT_TRY(std::vector<Value> items, to_vector(runtime, input));
  return runtime.make_list(std::move(items));
}

Result<Value> reverse(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("reverse", arguments, {}));
  if (input.is_string()) return slice(runtime, input, Value(), Value(), Value(-1));
  Result<std::shared_ptr<Iterator>> backwards = reversed(runtime, input);
  if (backwards.ok()) return Value(std::shared_ptr<Object>(std::move(backwards).value()));
  if (!is_iterable(input)) return invalid("argument must be iterable");
  GLINT_TRY(std::vector<Value> items, to_vector(runtime, input));
  std::reverse(items.begin(), items.end());
  return runtime.make_list(std::move(items));
}

Result<Value> join(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("join", arguments, {"d?", "attribute?"}));
  GLINT_TRY(const std::string separator, to_text(runtime, bound.get(0, Value(""))));
  Value items = input;
  if (!bound.get(1, Value()).is_none()) {
    GLINT_TRY(const AttributePath path, AttributePath::parse(*bound[1]));
    GLINT_TRY(std::vector<Value> values, to_vector(runtime, input));
    for (Value& value : values) {
      GLINT_TRY(value, path.get(runtime, value));
    }
    GLINT_TRY(items, runtime.make_list(std::move(values)));
  }
  GLINT_TRY(std::string text, join_texts(runtime, separator, items, true));
  return Value(std::move(text));
}

// The keys that sorting and choosing compare: an attribute of each item, or several ("a,b"), case
// ignored or not.
Result<std::vector<Value>> sort_keys(Runtime& runtime, const std::vector<Value>& items,
                                     const Value& attribute, bool case_sensitive, bool several) {
  std::vector<AttributePath> paths;
  if (several && attribute.is_string()) {
    for (const std::string_view part : split(attribute.text(), ',')) {
      GLINT_TRY(AttributePath path, AttributePath::parse(Value(part)));
      paths.push_back(std::move(path));
    }
  } else {
    GLINT_TRY(AttributePath path, AttributePath::parse(attribute));
    paths.push_back(std::move(path));
  }
  std::vector<Value> keys;
  for (const Value& item : items) {
    std::vector<Value> parts;
    for (const AttributePath& path : paths) {
      GLINT_TRY(Value part, path.get(runtime, item));
      if (!case_sensitive) {
        GLINT_TRY(part, ignore_case(runtime, part));
      }
      parts.push_back(std::move(part));
    }
    if (several) {
      GLINT_TRY(Value key, runtime.make_list(std::move(parts)));
      keys.push_back(std::move(key));
    } else {
      keys.push_back(std::move(parts[0]));
    }
  }
  return keys;
}

Result<Value> sort(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound,
            Bound::bind("sort", arguments, {"reverse?", "case_sensitive?", "attribute?"}));
  GLINT_TRY(std::vector<Value> items, to_vector(runtime, input));
  GLINT_TRY(const std::vector<Value> keys,
            sort_keys(runtime, items, bound.get(2, Value()), flag(bound, 1), true));
  GLINT_TRY_STATUS(sort_by_keys(runtime, items, keys, flag(bound, 0)));
  return runtime.make_list(std::move(items));
}

Result<Value> dict_sort(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound,
            Bound::bind("dictsort", arguments, {"case_sensitive?", "by?", "reverse?"}));
  GLINT_TRY(const std::string by, require_text(bound.get(1, Value("key")), "by"));
  if (by != "key" && by != "value")
    return invalid("You can only sort by either \"key\" or \"value\"");
  if (input.is_undefined()) return undefined_error(input);
  if (!input.is_dict())
    return invalid("'" + input.type_name() + "' object has no attribute 'items'");
  std::vector<Value> items, keys;
  for (const auto& [key, value] : input.as_dict().entries()) {
    GLINT_TRY(Value item, runtime.make_tuple({key, value}));
    items.push_back(std::move(item));
    Value compared = by == "key" ? key : value;
    if (!flag(bound, 0)) {
      GLINT_TRY(compared, ignore_case(runtime, compared));
    }
    keys.push_back(std::move(compared));
  }
  GLINT_TRY_STATUS(sort_by_keys(runtime, items, keys, flag(bound, 2)));
  return runtime.make_list(std::move(items));
}

template <bool kMax>
Result<Value> extreme(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound,
            Bound::bind(kMax ? "max" : "min", arguments, {"case_sensitive?", "attribute?"}));
  GLINT_TRY(const std::vector<Value> items, to_vector(runtime, input));
  if (items.empty()) return Value(Undefined{.hint = "No aggregated item, sequence was empty."});
  GLINT_TRY(const std::vector<Value> keys,
            sort_keys(runtime, items, bound.get(1, Value()), flag(bound, 0), false));
  std::size_t best = 0;
  for (std::size_t i = 1; i < items.size(); ++i) {
    GLINT_TRY(const bool better,
              compare(runtime, kMax ? Comparison::kGt : Comparison::kLt, keys[i], keys[best]));
    if (better) best = i;
  }
  return items[best];
}

Result<Value> sum(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("sum", arguments, {"attribute?", "start?"}));
  GLINT_TRY(const AttributePath path, AttributePath::parse(bound.get(0, Value())));
  Value total = bound.get(1, Value(0));
  if (total.is_string()) return invalid("sum() can't sum strings [use ''.join(seq) instead]");
  GLINT_TRY(const std::shared_ptr<Iterator> items, iterate(runtime, input));
  for (;;) {
    GLINT_TRY(const std::optional<Value> item, items->next());
    if (!item) return total;
    GLINT_TRY(const Value value, path.get(runtime, *item));
    GLINT_TRY(total, calculate(runtime, Operator::kAdd, total, value));
  }
}

Result<Value> group_by(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound,
            Bound::bind("groupby", arguments, {"attribute", "default?", "case_sensitive?"}));
  GLINT_TRY(const AttributePath path, AttributePath::parse(*bound[0]));
  const Value* otherwise = bound.get(1, Value()).is_none() ? nullptr : bound[1];
  GLINT_TRY(std::vector<Value> items, to_vector(runtime, input));
  // Items travel with their keys: pairs are sorted.
  std::vector<Value> keys, pairs;
  for (const Value& item : items) {
    GLINT_TRY(const Value real_key, path.get(runtime, item, otherwise));
    Value key = real_key;
    if (!flag(bound, 2)) {
      GLINT_TRY(key, ignore_case(runtime, key));
    }
    GLINT_TRY(Value pair, runtime.make_tuple({key, real_key, item}));
    keys.push_back(std::move(key));
    pairs.push_back(std::move(pair));
  }
  GLINT_TRY_STATUS(sort_by_keys(runtime, pairs, keys, false));
  std::vector<Value> groups;
  for (std::size_t begin = 0, end = 0; begin < pairs.size(); begin = end) {
    std::vector<Value> members;
    for (bool same = true; same && end < pairs.size();) {
      members.push_back(pairs[end++].items()[2]);
      if (end == pairs.size()) break;
      GLINT_TRY(same, equals(runtime, pairs[begin].items()[0], pairs[end].items()[0]));
    }
    GLINT_TRY(Value list, runtime.make_list(std::move(members)));
    GLINT_TRY(Value group, runtime.make_tuple({pairs[begin].items()[1], std::move(list)}, true));
    groups.push_back(std::move(group));
  }
  return runtime.make_list(std::move(groups));
}

Result<Value> attribute_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("attr", arguments, {"name"}));
  GLINT_TRY(const std::string name, require_text(*bound[0], "attribute name"));
  // A dict's items are no attributes.
  if (input.is_dict() && !find_method(input, name)) {
    return Value(Undefined{.owner = input.type_description(), .name = name});
  }
  return get_attribute(runtime, input, name);
}

}  // namespace

Filter find_filter(std::string_view name) {
  for (const auto find :
       {find_sequence_filter, find_lazy_filter, find_text_filter, find_number_filter}) {
    if (const Filter filter = find(name)) return filter;
  }
  return nullptr;
}

Filter find_sequence_filter(std::string_view name) {
  static constexpr Named<Filter> kFilters[] = {
      {"attr", attribute_filter},
      {"count", length_filter},
      {"d", default_filter},
      {"default", default_filter},
      {"dictsort", dict_sort},
      {"first", first},
      {"groupby", group_by},
      {"join", join},
      {"last", last},
      {"length", length_filter},
      {"list", list},
      {"max", extreme<true>},
      {"min", extreme<false>},
      {"reverse", reverse},
      {"sort", sort},
      {"sum", sum},
  };
  return find_named(kFilters, name);
}

Result<AttributePath> AttributePath::parse(const Value& attribute) {
  AttributePath path;
  if (attribute.is_none()) return path;
  if (!attribute.is_string()) {
    path.keys_.push_back(attribute);
    return path;
  }
  for (const std::string_view part : split(attribute.text(), '.')) {
    const bool is_index =
        !part.empty() && part.size() < 19 &&
        std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    path.keys_.push_back(is_index ? Value(static_cast<Int>(std::stoll(std::string(part))))
                                  : Value(part));
  }
  return path;
}

Result<Value> AttributePath::get(Runtime& runtime, const Value& item,
                                 const Value* otherwise) const {
  Value value = item;
  for (const Value& key : keys_) {
    GLINT_TRY(value, get_item(runtime, value, key));
    if (otherwise && value.is_undefined()) value = *otherwise;
  }
  return value;
}

}  // namespace glint::jinja
