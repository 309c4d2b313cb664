// The filters that are generators in jinja2: nothing happens, and nothing fails, before someone
// iterates.
#include <algorithm>

#include "text/jinja/filters.h"

namespace glint::jinja {
namespace {

class Generator : public Iterator {
 public:
  using Next = std::function<Result<std::optional<Value>>()>;
  Generator(Next next, int depth) : Iterator(depth), next_(std::move(next)) {}
  Result<std::optional<Value>> next() override { return next_(); }

 private:
  Next next_;
};

int depth_of(const Value& input, const Arguments& arguments) {
  int depth = input.depth();
  for (const Value& value : arguments.positional) depth = std::max(depth, value.depth());
  for (const auto& [name, value] : arguments.named) depth = std::max(depth, value.depth());
  return depth;
}

// The items of a value, looked at when the first is wanted.
class LazyItems {
 public:
  LazyItems(Runtime& runtime, Value source, bool empty_if_false)
      : runtime_(runtime), source_(std::move(source)), empty_if_false_(empty_if_false) {}

  Result<std::optional<Value>> next() {
    if (!items_) {
      if (empty_if_false_ && !truthy(source_)) return std::nullopt;
      GLINT_TRY(items_, iterate(runtime_, source_));
    }
    return items_->next();
  }

 private:
  Runtime& runtime_;
  Value source_;
  bool empty_if_false_;
  std::shared_ptr<Iterator> items_;
};

// {{ x | map("upper") }}, {{ x | map(attribute="name", default="") }}
Result<Value> map_item(Runtime& runtime, const Value& item, const Arguments& arguments) {
  if (arguments.positional.empty()) {
    Value attribute, otherwise;
    bool has_attribute = false;
    for (const auto& [name, value] : arguments.named) {
      if (name == "attribute") {
        attribute = value;
        has_attribute = true;
      } else if (name == "default") {
        otherwise = value;
      } else {
        return invalid(has_attribute ? "Unexpected keyword argument '" + name + "'"
                                     : "map requires a filter argument");
      }
    }
    if (!has_attribute) return invalid("map requires a filter argument");
    GLINT_TRY(const AttributePath path, AttributePath::parse(attribute));
    return path.get(runtime, item, otherwise.is_none() ? nullptr : &otherwise);
  }
  const Value& name = arguments.positional[0];
  const Filter filter = name.is_string() ? find_filter(name.text()) : nullptr;
  if (!filter) {
    GLINT_TRY(const std::string printed, to_repr(runtime, name));
    return invalid("No filter named " + printed + ".");
  }
  return filter(runtime, item,
                {{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.named});
}

Result<Value> map(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const auto items = std::make_shared<LazyItems>(runtime, input, true);
  const auto next = [&runtime, items, arguments]() -> Result<std::optional<Value>> {
    GLINT_TRY(const std::optional<Value> item, items->next());
    if (!item) return item;
    GLINT_TRY(Value mapped, map_item(runtime, *item, arguments));
    return mapped;
  };
  return runtime.make<Generator>(depth_of(input, arguments), next);
}

// Does the test that the arguments name hold? Without one: is the item true?
Result<bool> passes(Runtime& runtime, const Value& item, const Arguments& arguments,
                    bool of_attribute) {
  Value tested = item;
  const std::size_t name_at = of_attribute ? 1 : 0;
  if (of_attribute) {
    if (arguments.positional.empty()) return invalid("Missing parameter for attribute name");
    GLINT_TRY(const AttributePath path, AttributePath::parse(arguments.positional[0]));
    GLINT_TRY(tested, path.get(runtime, item));
  }
  if (arguments.positional.size() <= name_at) return truthy(tested);
  const Value& name = arguments.positional[name_at];
  const Test test = name.is_string() ? find_test(name.text()) : nullptr;
  if (!test) {
    GLINT_TRY(const std::string printed, to_repr(runtime, name));
    return invalid("No test named " + printed + ".");
  }
  const auto rest = arguments.positional.begin() + static_cast<std::ptrdiff_t>(name_at) + 1;
  return test(runtime, tested, {{rest, arguments.positional.end()}, arguments.named});
}

template <bool kWanted, bool kOfAttribute>
Result<Value> select(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const auto items = std::make_shared<LazyItems>(runtime, input, true);
  const auto next = [&runtime, items, arguments]() -> Result<std::optional<Value>> {
    for (;;) {
      GLINT_TRY(std::optional<Value> item, items->next());
      if (!item) return item;
      GLINT_TRY(const bool holds, passes(runtime, *item, arguments, kOfAttribute));
      if (holds == kWanted) return item;
    }
  };
  return runtime.make<Generator>(depth_of(input, arguments), next);
}

Result<Value> unique(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("unique", arguments, {"case_sensitive?", "attribute?"}));
  GLINT_TRY(const AttributePath path, AttributePath::parse(bound.get(1, Value())));
  const bool case_sensitive = truthy(bound.get(0, Value(false)));
  const auto items = std::make_shared<LazyItems>(runtime, input, false);
  const auto seen = std::make_shared<Dict>();
  const auto next = [&runtime, items, seen, path,
                     case_sensitive]() -> Result<std::optional<Value>> {
    for (;;) {
      GLINT_TRY(std::optional<Value> item, items->next());
      if (!item) return item;
      GLINT_TRY(Value key, path.get(runtime, *item));
      if (!case_sensitive) {
        GLINT_TRY(key, ignore_case(runtime, key));
      }
      GLINT_TRY(std::string text, key_text(runtime, key));
      if (seen->find(text)) continue;
      GLINT_TRY_STATUS(runtime.budget.spend_bytes(2 * sizeof(Dict::Entry) + text.size()));
      seen->set(std::move(text), Value(), Value());
      return item;
    }
  };
  return runtime.make<Generator>(depth_of(input, arguments), next);
}

Result<Value> items(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("items", arguments, {}));
  const auto place = std::make_shared<std::size_t>(0);
  const auto next = [&runtime, input, place]() -> Result<std::optional<Value>> {
    if (input.is_undefined()) return std::nullopt;
    if (!input.is_dict()) return invalid("Can only get item pairs from a mapping.");
    const auto& entries = input.as_dict().entries();
    if (*place == entries.size()) return std::nullopt;
    GLINT_TRY_STATUS(runtime.budget.spend_steps(1));
    const Dict::Entry& entry = entries[(*place)++];
    GLINT_TRY(Value pair, runtime.make_tuple({entry.key, entry.value}));
    return pair;
  };
  return runtime.make<Generator>(depth_of(input, arguments), next);
}

Result<Value> batch(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("batch", arguments, {"linecount", "fill_with?"}));
  const Value count = *bound[0], fill = bound.get(1, Value());
  const auto items = std::make_shared<LazyItems>(runtime, input, false);
  // The item that did not fit into the batch before.
  const auto waiting = std::make_shared<std::optional<Value>>();
  const auto next = [&runtime, items, waiting, count, fill]() -> Result<std::optional<Value>> {
    std::vector<Value> row;
    if (*waiting) row.push_back(std::move(**waiting));
    waiting->reset();
    for (;;) {
      GLINT_TRY(std::optional<Value> item, items->next());
      if (!item) break;
      GLINT_TRY(const bool full, equals(runtime, Value(static_cast<Int>(row.size())), count));
      if (full) {
        *waiting = std::move(item);
        GLINT_TRY(Value list, runtime.make_list(std::move(row)));
        return list;
      }
      row.push_back(std::move(*item));
    }
    if (row.empty()) return std::nullopt;
    if (!fill.is_none()) {
      GLINT_TRY(const Int width, require_int(count));
      while (static_cast<Int>(row.size()) < width) {
        GLINT_TRY_STATUS(runtime.budget.spend_bytes(sizeof(Value)));
        row.push_back(fill);
      }
    }
    GLINT_TRY(Value list, runtime.make_list(std::move(row)));
    return list;
  };
  return runtime.make<Generator>(depth_of(input, arguments), next);
}

// Some numbers of columns: the first ones get the items that are left over.
Result<Value> slice_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("slice", arguments, {"slices", "fill_with?"}));
  const Value slices = *bound[0], fill = bound.get(1, Value());
  const auto column = std::make_shared<Int>(0);
  const auto all = std::make_shared<std::vector<Value>>();
  const auto next = [&runtime, input, column, all, slices, fill]() -> Result<std::optional<Value>> {
    GLINT_TRY(const Int count, require_int(slices));
    if (*column == 0) {
      GLINT_TRY(*all, to_vector(runtime, input));
      if (count == 0) return invalid("integer division or modulo by zero");
    }
    if (*column >= count) return std::nullopt;
    GLINT_TRY_STATUS(runtime.budget.spend_steps(1));
    const Int size = static_cast<Int>(all->size()), each = size / count, longer = size % count;
    const Int begin = *column * each + std::min(*column, longer),
              end = begin + each + (*column < longer);
    std::vector<Value> row(all->begin() + begin, all->begin() + end);
    if (!fill.is_none() && *column >= longer) row.push_back(fill);
    ++*column;
    GLINT_TRY(Value list, runtime.make_list(std::move(row)));
    return list;
  };
  return runtime.make<Generator>(depth_of(input, arguments), next);
}

}  // namespace

Filter find_lazy_filter(std::string_view name) {
  if (name == "batch") return batch;
  if (name == "items") return items;
  if (name == "map") return map;
  if (name == "reject") return select<false, false>;
  if (name == "rejectattr") return select<false, true>;
  if (name == "select") return select<true, false>;
  if (name == "selectattr") return select<true, true>;
  if (name == "slice") return slice_filter;
  if (name == "unique") return unique;
  return nullptr;
}

}  // namespace glint::jinja
