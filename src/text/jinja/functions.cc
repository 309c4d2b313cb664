#include "text/jinja/functions.h"

#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/operations.h"

namespace glint::jinja {
namespace {

constexpr Int kMaxRange = 100000;  // jinja2's sandbox: MAX_RANGE

// How many numbers range(start, stop, step) has. Exact for all 64-bit bounds.
std::uint64_t range_size(Int start, Int stop, Int step) {
  const auto from = static_cast<std::uint64_t>(start), to = static_cast<std::uint64_t>(stop);
  if (step > 0) return start < stop ? (to - from - 1) / static_cast<std::uint64_t>(step) + 1 : 0;
  return start > stop ? (from - to - 1) / (0 - static_cast<std::uint64_t>(step)) + 1 : 0;
}

Result<Value> make_range(Runtime& runtime, const Arguments& arguments) {
  if (!arguments.named.empty()) return invalid("range() takes no keyword arguments");
  const std::vector<Value>& given = arguments.positional;
  if (given.empty()) return invalid("range expected at least 1 argument, got 0");
  if (given.size() > 3)
    return invalid(str("range expected at most 3 arguments, got ", given.size()));
  Int bounds[3] = {0, 0, 1};
  for (std::size_t i = 0; i < given.size(); ++i) {
    GLINT_TRY(bounds[given.size() == 1 ? 1 : i], require_int(given[i]));
  }
  if (bounds[2] == 0) return invalid("range() arg 3 must not be zero");
  if (range_size(bounds[0], bounds[1], bounds[2]) > static_cast<std::uint64_t>(kMaxRange)) {
    return invalid(
        str("Range too big. The sandbox blocks ranges larger than MAX_RANGE (", kMaxRange, ")."));
  }
  return runtime.make<Range>(0, bounds[0], bounds[1], bounds[2]);
}

// dict(pairs or a dict, name=value, ...)
Result<Dict> collect_dict(Runtime& runtime, const Arguments& arguments, const char* function) {
  Dict dict;
  if (arguments.positional.size() > 1) {
    return invalid(
        str(function, " expected at most 1 argument, got ", arguments.positional.size()));
  }
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is_undefined()) return undefined_error(source);
    if (source.is_dict()) {
      dict = source.as_dict();
    } else {
      GLINT_TRY(const std::vector<Value> pairs, to_vector(runtime, source));
      for (const Value& pair : pairs) {
        GLINT_TRY(std::vector<Value> parts, to_vector(runtime, pair));
        if (parts.size() != 2) {
          return invalid(str("dictionary update sequence element has length ", parts.size(),
                             "; 2 is required"));
        }
        GLINT_TRY(std::string text, key_text(runtime, parts[0]));
        dict.set(std::move(text), std::move(parts[0]), std::move(parts[1]));
      }
    }
  }
  for (const auto& [name, value] : arguments.named) dict.set(name, name, value);
  return dict;
}

Result<Value> make_dict_value(Runtime& runtime, const Arguments& arguments) {
  GLINT_TRY(Dict dict, collect_dict(runtime, arguments, "dict"));
  return runtime.make_dict(std::move(dict));
}

// The global `dict`.
class DictType : public Function {
 public:
  explicit DictType(int depth) : Function("dict", make_dict_value, depth) {}
  Result<std::optional<Value>> attribute(Runtime& runtime, std::string_view name,
                                         const Value&) override {
    if (name != "fromkeys") return std::nullopt;
    GLINT_TRY(Value function, runtime.make<Function>(0, "fromkeys", dict_from_keys));
    return function;
  }
};

Result<Value> make_namespace(Runtime& runtime, const Arguments& arguments) {
  GLINT_TRY(Dict attributes, collect_dict(runtime, arguments, "dict"));
  GLINT_TRY_STATUS(Runtime::check_depth(attributes.depth()));
  GLINT_TRY_STATUS(runtime.budget.spend_bytes(sizeof(Namespace)));
  auto made = std::make_shared<Namespace>(std::move(attributes));
  runtime.keep(made);  // it may come to hold itself
  return Value(std::shared_ptr<Object>(std::move(made)));
}

class Cycler : public Object {
 public:
  Cycler(std::vector<Value> items, int depth) : Object(depth), items_(std::move(items)) {}
  std::string type_name() const override { return "Cycler"; }
  std::string module() const override { return "jinja2.utils."; }
  Result<std::optional<Value>> attribute(Runtime& runtime, std::string_view name,
                                         const Value& self) override {
    if (name == "current") return items_[place_];
    if (name == "pos") return static_cast<Int>(place_);
    if (name != "next" && name != "reset") return std::nullopt;
    const bool is_next = name == "next";
    GLINT_TRY(Value method,
              runtime.make<Function>(depth(), std::string(name),
                                     [self, this, is_next](Runtime&, const Arguments& arguments) {
                                       return turn(arguments, is_next);
                                     }));
    return method;
  }

 private:
  Result<Value> turn(const Arguments& arguments, bool is_next) {
    GLINT_TRY_STATUS(Bound::bind(is_next ? "next" : "reset", arguments, {}));
    const Value current = items_[place_];
    place_ = is_next ? (place_ + 1) % items_.size() : 0;
    return is_next ? current : Value();
  }

  std::vector<Value> items_;
  std::size_t place_ = 0;
};

class Joiner : public Object {
 public:
  Joiner(Value separator, int depth) : Object(depth), separator_(std::move(separator)) {}
  std::string type_name() const override { return "Joiner"; }
  std::string module() const override { return "jinja2.utils."; }
  bool callable() const override { return true; }
  Result<Value> call(Runtime&, const Arguments& arguments) override {
    GLINT_TRY_STATUS(Bound::bind("joiner", arguments, {}));
    if (used_) return separator_;
    used_ = true;
    return Value("");
  }

 private:
  Value separator_;
  bool used_ = false;
};

Result<Value> make_cycler(Runtime& runtime, const Arguments& arguments) {
  if (!arguments.named.empty()) return invalid("cycler() takes no keyword arguments");
  if (arguments.positional.empty()) return invalid("at least one item has to be provided");
  int depth = 0;
  for (const Value& item : arguments.positional) depth = std::max(depth, item.depth());
  return runtime.make<Cycler>(depth, arguments.positional);
}

Result<Value> make_joiner(Runtime& runtime, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("joiner", arguments, {"sep?"}));
  const Value separator = bound.get(0, ", ");
  return runtime.make<Joiner>(separator.depth(), separator);
}

Result<Value> raise_exception(Runtime& runtime, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("raise_exception", arguments, {"message"}));
  GLINT_TRY(std::string message, to_text(runtime, *bound[0]));
  return invalid(std::move(message));
}

// What Python's datetime fills in itself: nothing for the zone of a time that has none, and
// microseconds, which are not known here.
std::string without_zone(std::string_view format) {
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    const std::string_view field = format.substr(i, format[i] == '%' ? 2 : 1);
    if (field == "%f") out += "000000";
    if (field != "%f" && field != "%z" && field != "%Z") out += field;
    i += field.size() - 1;
  }
  return out;
}

Result<Value> strftime_now(Runtime& runtime, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("strftime_now", arguments, {"format"}));
  GLINT_TRY(std::string format, require_text(*bound[0], "the format of strftime_now"));
  if (format.size() > 1000) return invalid("the format of strftime_now is longer than 1000 bytes");
  format = without_zone(format);
  if (format.empty()) return Value("");
  std::tm local = {};
  localtime_r(&runtime.now, &local);
  // One conversion prints at most some 50 bytes ("%c", "%+"), unless a width is given, which
  // Python's format documentation does not know.
  std::string out(format.size() * 64, '\0');
  out.resize(std::strftime(out.data(), out.size(), format.c_str(), &local));
  return runtime.make_string(std::move(out));
}

}  // namespace

Result<Value> dict_from_keys(Runtime& runtime, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("fromkeys", arguments, {"iterable", "value?"}));
  GLINT_TRY(const std::vector<Value> keys, to_vector(runtime, *bound[0]));
  Dict dict;
  for (const Value& key : keys) {
    GLINT_TRY(std::string text, key_text(runtime, key));
    dict.set(std::move(text), key, bound.get(1, Value()));
  }
  return runtime.make_dict(std::move(dict));
}

Int Range::size() const { return static_cast<Int>(range_size(start_, stop_, step_)); }

bool Range::contains(Int number) const {
  const bool within =
      step_ > 0 ? number >= start_ && number < stop_ : number <= start_ && number > stop_;
  if (!within) return false;
  const auto offset = static_cast<std::uint64_t>(number) - static_cast<std::uint64_t>(start_);
  return step_ > 0 ? offset % static_cast<std::uint64_t>(step_) == 0
                   : (0 - offset) % (0 - static_cast<std::uint64_t>(step_)) == 0;
}

bool Range::operator==(const Range& other) const {
  if (size() != other.size()) return false;
  if (size() == 0) return true;
  return start_ == other.start_ && (size() == 1 || step_ == other.step_);
}

Result<std::string> Range::repr(Runtime&) {
  if (step_ == 1) return str("range(", start_, ", ", stop_, ")");
  return str("range(", start_, ", ", stop_, ", ", step_, ")");
}

std::optional<Value> Range::item(const Value& index) const {
  if (!index.is_int()) return {};
  const std::optional<std::size_t> place =
      wrap_index(index.as_int(), static_cast<std::size_t>(size()));
  return place ? std::optional<Value>(at(static_cast<Int>(*place))) : std::nullopt;
}

Result<Value> Range::slice(Runtime& runtime, Int start, Int stop, Int step) const {
  Int first = 0, last = 0, stride = 0;
  const bool overflows =
      __builtin_mul_overflow(start, step_, &first) ||
      __builtin_add_overflow(first, start_, &first) || __builtin_mul_overflow(stop, step_, &last) ||
      __builtin_add_overflow(last, start_, &last) || __builtin_mul_overflow(step, step_, &stride);
  if (overflows) return beyond_64_bits();
  return runtime.make<Range>(0, first, last, stride);
}

Result<std::optional<Value>> Range::attribute(Runtime& runtime, std::string_view name,
                                              const Value& self) {
  if (name == "start") return start_;
  if (name == "stop") return stop_;
  if (name == "step") return step_;
  if (name != "count" && name != "index") return std::nullopt;
  // As the methods of a list of the numbers: ranges are short.
  GLINT_TRY(std::vector<Value> numbers, to_vector(runtime, self));
  GLINT_TRY(const Value list, runtime.make_list(std::move(numbers)));
  GLINT_TRY(Value method, get_attribute(runtime, list, name));
  return method;
}

std::string DictView::type_name() const {
  return part_ == kKeys ? "dict_keys" : part_ == kValues ? "dict_values" : "dict_items";
}

Result<Value> DictView::at(Runtime& runtime, std::size_t index) const {
  const Dict::Entry& entry = dict_.as_dict().entries()[index];
  if (part_ == kKeys) return entry.key;
  if (part_ == kValues) return entry.value;
  return runtime.make_tuple({entry.key, entry.value});
}

Result<std::string> DictView::repr(Runtime& runtime) {
  std::vector<Value> items;
  for (std::size_t i = 0; i < size(); ++i) {
    GLINT_TRY(Value item, at(runtime, i));
    items.push_back(std::move(item));
  }
  GLINT_TRY(const Value list, runtime.make_list(std::move(items)));
  GLINT_TRY(const std::string text, to_repr(runtime, list));
  return type_name() + "(" + text + ")";
}

Result<std::optional<Value>> global_function(Runtime& runtime, std::string_view name) {
  struct Global {
    std::string_view name;
    Result<Value> (*body)(Runtime&, const Arguments&);
  };
  static constexpr Global kGlobals[] = {
      {"range", make_range},   {"namespace", make_namespace},        {"cycler", make_cycler},
      {"joiner", make_joiner}, {"raise_exception", raise_exception}, {"strftime_now", strftime_now},
  };
  if (name == "dict") {
    GLINT_TRY(Value type, runtime.make<DictType>(0));
    return type;
  }
  for (const Global& global : kGlobals) {
    if (global.name != name) continue;
    GLINT_TRY(Value function, runtime.make<Function>(0, std::string(name), global.body));
    return function;
  }
  return std::nullopt;
}

Result<Bound> Bound::bind(std::string_view function, const Arguments& arguments,
                          std::initializer_list<std::string_view> parameters) {
  Bound bound;
  bound.values_.resize(parameters.size());
  if (arguments.positional.size() > parameters.size()) {
    return invalid(str(function, "() takes ", parameters.size(), " positional arguments but ",
                       arguments.positional.size(), " were given"));
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i)
    bound.values_[i] = &arguments.positional[i];
  for (const auto& argument : arguments.named) {
    const std::string& name = argument.first;
    const auto* at =
        std::find_if(parameters.begin(), parameters.end(), [&](std::string_view parameter) {
          return parameter == name ||
                 (parameter.ends_with('?') && parameter.substr(0, parameter.size() - 1) == name);
        });
    if (at == parameters.end())
      return invalid(str(function, "() got an unexpected keyword argument '", name, "'"));
    const Value*& place = bound.values_[static_cast<std::size_t>(at - parameters.begin())];
    if (place) return invalid(str(function, "() got multiple values for argument '", name, "'"));
    place = &argument.second;
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string_view parameter = parameters.begin()[i];
    if (!bound.values_[i] && !parameter.ends_with('?')) {
      return invalid(str(function, "() missing 1 required positional argument: '", parameter, "'"));
    }
  }
  return bound;
}

Result<Int> require_int(const Value& value) {
  if (value.is_int()) return value.as_int();
  if (value.kind() == Kind::kBigInt) return beyond_64_bits();
  if (value.is_undefined()) return undefined_error(value);
  return invalid("'" + value.type_name() + "' object cannot be interpreted as an integer");
}

Result<std::string> require_text(const Value& value, std::string_view what) {
  if (value.is_string()) return value.text();
  return invalid(str(what, " must be str, not ", value.type_name()));
}

}  // namespace glint::jinja
