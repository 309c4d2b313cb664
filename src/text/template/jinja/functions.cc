// The functions that a template finds without being given them.
#include <algorithm>
#include <iterator>

#include "base/contains.h"
#include "base/str.h"
#include "text/template/jinja/builtins.h"
#include "text/template/jinja/operations.h"

namespace glint::jinja {
namespace {

constexpr Int kMaxRange = 100000;  // jinja2's sandbox: MAX_RANGE

// How many numbers range(start, stop, step) has. Exact for all 64-bit bounds.
std::uint64_t range_size(Int start, Int stop, Int step) {
  const auto from = static_cast<std::uint64_t>(start), to = static_cast<std::uint64_t>(stop);
  if (step > 0) return start < stop ? (to - from - 1) / static_cast<std::uint64_t>(step) + 1 : 0;
  return start > stop ? (from - to - 1) / (0 - static_cast<std::uint64_t>(step)) + 1 : 0;
}

Result<Value> range(Runtime& runtime, const Arguments& arguments) {
  if (!arguments.named.empty()) return invalid("range() takes no keyword arguments");
  const std::vector<Value>& given = arguments.positional;
  if (given.empty()) return invalid("range expected at least 1 argument, got 0");
  if (given.size() > 3)
    return invalid(str("range expected at most 3 arguments, got ", given.size()));
  Int bounds[3] = {0, 0, 1};  // start, stop, step
  for (std::size_t i = 0; i < given.size(); ++i) {
    GLINT_TRY(bounds[given.size() == 1 ? 1 : i], require_int(given[i]));
  }
  if (bounds[2] == 0) return invalid("range() arg 3 must not be zero");
  const std::uint64_t size = range_size(bounds[0], bounds[1], bounds[2]);
  if (size > static_cast<std::uint64_t>(kMaxRange)) {
    return invalid(
        str("Range too big. The sandbox blocks ranges larger than MAX_RANGE (", kMaxRange, ")."));
  }
  std::vector<Value> numbers;
  GLINT_TRY_STATUS(runtime.budget.spend_steps(size));
  for (std::uint64_t i = 0; i < size; ++i) {
    // The sum lies between the bounds, the product may lie beyond 63 bits.
    numbers.push_back(static_cast<Int>(static_cast<std::uint64_t>(bounds[0]) +
                                       i * static_cast<std::uint64_t>(bounds[2])));
  }
  return runtime.make_items(Items::kRange, std::move(numbers));
}

Result<Value> make_namespace(Runtime& runtime, const Arguments& arguments) {
  Dict attributes;
  const Arguments positional = {arguments.positional, {}};
  GLINT_TRY(const Bound bound, Bound::bind("namespace", positional, {"mapping?"}));
  const Value empty = Value(std::make_shared<const Dict>());
  const Value& mapping = bound.get(0, empty);
  if (!mapping.is_dict()) return invalid("namespace() takes a dict, not " + mapping.type_name());
  for (const auto& [key, value] : mapping.as_dict().entries()) {
    if (key.is_string()) attributes.set(key.text(), key, value);
  }
  for (const auto& [name, value] : arguments.named) attributes.set(name, name, value);
  return runtime.make_namespace(std::move(attributes));
}

// joiner(", "): a function that gives nothing at the first call and the separator at all others.
Result<Value> joiner(Runtime& runtime, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("joiner", arguments, {"sep?"}));
  const Value separator = bound.get(0, ", ");
  const auto is_used = std::make_shared<bool>(false);
  return runtime.make_function(
      [separator, is_used](Runtime&, const Arguments&) -> Result<Value> {
        return std::exchange(*is_used, true) ? separator : Value("");
      },
      separator.depth());
}

Result<Value> raise_exception(Runtime& runtime, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("raise_exception", arguments, {"message"}));
  GLINT_TRY(std::string message, to_text(runtime, bound[0]));
  return invalid(std::move(message));
}

// The fields that Python's datetime fills in itself: nothing for the zone of a time that has none,
// and microseconds, which are not known here.
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
  GLINT_TRY(std::string format, require_text(bound[0], "the format of strftime_now"));
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

using Global = Result<Value> (*)(Runtime&, const Arguments&);
constexpr Named<Global> kGlobals[] = {{"joiner", joiner},
                                      {"namespace", make_namespace},
                                      {"raise_exception", raise_exception},
                                      {"range", range},
                                      {"strftime_now", strftime_now}};

}  // namespace

bool lacks_function(std::string_view name) {
  return name == "cycler" || name == "dict" || name == "lipsum";
}

Error unsupported_function(std::string_view name) {
  return invalid(str("'", name, "' is not supported; there are ", join_names(kGlobals)));
}

Result<std::optional<Value>> global_function(Runtime& runtime, std::string_view name) {
  const bool is_of_macro = name == "caller" || name == "kwargs" || name == "varargs";
  if (is_of_macro || lacks_function(name)) return unsupported_function(name);
  const Global global = find_named(kGlobals, name);
  if (!global) return std::nullopt;
  GLINT_TRY(Value function, runtime.make_function(global));
  return function;
}

}  // namespace glint::jinja
