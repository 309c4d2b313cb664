// Lengths, iteration, indices and slices of everything that Python iterates.
#include <algorithm>

#include "base/utf8.h"
#include "text/template/jinja/characters.h"
#include "text/template/jinja/operations.h"

namespace glint::jinja {
namespace {

bool is_generator(const Value& value) {
  return value.is_items() && value.as_items().type == Items::kGenerator;
}

// Lists, tuples and ranges have indices; views of a dict and generators have none.
bool has_indices(const Value& value) {
  return value.is_string() || (value.is_items() && value.as_items().type <= Items::kRange);
}

Result<std::vector<Value>> characters(Runtime& runtime, const Str& from) {
  GLINT_TRY_STATUS(runtime.budget.spend_bytes(from.length * sizeof(Value)));
  std::vector<Value> values;
  values.reserve(from.length);
  const std::string& text = from.bytes;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    next_code_point(text, at);
    GLINT_TRY(Value character, runtime.make_string(text.substr(start, at - start)));
    values.push_back(std::move(character));
  }
  return values;
}

std::size_t offset_of(const Str& text, Int index) {
  return text.is_ascii() ? static_cast<std::size_t>(index)
                         : byte_offset(text.bytes, static_cast<std::size_t>(index));
}

struct Range {
  Int start, step, count;  // items start, start + step, ...: `count` of them
};

// One bound of a slice: moved into [low, high] as Python does.
Result<Int> slice_bound(const Value& bound, Int otherwise, Int low, Int high, Int size) {
  if (bound.is_none()) return otherwise;
  if (!bound.is_int())
    return invalid("slice indices must be integers or None or have an __index__ method");
  Int value = bound.as_int();
  if (value < 0) value = value < -size ? low : value + size;
  return std::clamp(value, low, high);
}

Result<Range> slice_range(const Value& start, const Value& stop, const Value& step, Int size) {
  Int stride = 1;
  if (!step.is_none()) {
    GLINT_TRY(stride, require_int(step));
  }
  if (stride == 0) return invalid("slice step cannot be zero");
  stride = std::max(stride, -INT64_MAX);
  const bool forward = stride > 0;
  const Int low = forward ? 0 : -1, high = forward ? size : size - 1;
  GLINT_TRY(const Int first, slice_bound(start, forward ? low : high, low, high, size));
  GLINT_TRY(const Int last, slice_bound(stop, forward ? high : low, low, high, size));
  Int count = 0;
  if (forward && first < last) count = (last - first - 1) / stride + 1;
  if (!forward && last < first) count = (first - last - 1) / -stride + 1;
  return Range{first, stride, count};
}

Result<Value> slice_text(Runtime& runtime, const Str& text, const Range& range) {
  GLINT_TRY_STATUS(runtime.budget.spend_steps(text.bytes.size() / 64));
  if (range.count == 0) return Value(std::string(), text.markup);
  if (range.step == 1) {
    const std::size_t begin = offset_of(text, range.start);
    const std::size_t end = offset_of(text, range.start + range.count);
    return runtime.make_string(text.bytes.substr(begin, end - begin), text.markup);
  }
  std::u32string characters;
  GLINT_TRY_STATUS(runtime.budget.spend_bytes(text.bytes.size() * sizeof(char32_t)));
  for (std::size_t at = 0; at < text.bytes.size();) characters += next_code_point(text.bytes, at);
  std::string out;
  for (Int i = 0; i < range.count; ++i) {
    append_utf8(out, characters[static_cast<std::size_t>(range.start + i * range.step)]);
  }
  return runtime.make_string(std::move(out), text.markup);
}

}  // namespace

Result<Int> length(const Value& value) {
  if (value.is_undefined()) return Int{0};
  if (value.is_string()) return static_cast<Int>(value.as_str().length);
  if (value.is_items() && !is_generator(value)) return static_cast<Int>(value.items().size());
  if (value.is_dict()) return static_cast<Int>(value.as_dict().size());
  return invalid("object of type '" + value.type_name() + "' has no len()");
}

bool is_iterable(const Value& value) {
  return value.is_undefined() || value.is_string() || value.is_items() || value.is_dict();
}

Result<std::vector<Value>> to_vector(Runtime& runtime, const Value& value) {
  std::vector<Value> values;
  if (value.is_items()) {
    if (is_generator(value) && std::exchange(value.as_items().is_taken, true)) return values;
    if (value.as_items().failure) return *value.as_items().failure;
    GLINT_TRY_STATUS(runtime.budget.spend_steps(value.items().size()));
    return value.items();
  }
  if (value.is_string()) {
    GLINT_TRY_STATUS(runtime.budget.spend_steps(value.as_str().length));
    return characters(runtime, value.as_str());
  }
  if (value.is_dict()) {
    GLINT_TRY_STATUS(runtime.budget.spend_steps(value.as_dict().size()));
    for (const Dict::Entry& entry : value.as_dict().entries()) values.push_back(entry.key);
    return values;
  }
  if (value.is_undefined()) return values;
  return invalid("'" + value.type_name() + "' object is not iterable");
}

Result<std::optional<Value>> find_index(Runtime& runtime, const Value& value, Int index) {
  if (!has_indices(value)) return std::nullopt;
  GLINT_TRY(const Int size, length(value));
  if (index < -size || index >= size) return std::nullopt;
  const Int place = index < 0 ? index + size : index;
  if (value.is_items()) return value.items()[static_cast<std::size_t>(place)];
  GLINT_TRY(Value character, slice_text(runtime, value.as_str(), Range{place, 1, 1}));
  return character;
}

Result<Value> slice(Runtime& runtime, const Value& value, const Value& start, const Value& stop,
                    const Value& step) {
  if (value.is_undefined()) return undefined_error(value);
  if (value.is_dict()) return invalid("unhashable type: 'slice'");
  if (!has_indices(value))
    return invalid("'" + value.type_name() + "' object is not subscriptable");
  GLINT_TRY(const Int size, length(value));
  GLINT_TRY(const Range range, slice_range(start, stop, step, size));
  if (value.is_string()) return slice_text(runtime, value.as_str(), range);
  GLINT_TRY_STATUS(runtime.budget.spend_steps(static_cast<std::uint64_t>(range.count)));
  std::vector<Value> values;
  for (Int i = 0; i < range.count; ++i) {
    values.push_back(value.items()[static_cast<std::size_t>(range.start + i * range.step)]);
  }
  return runtime.make_items(value.as_items().type, std::move(values));
}

}  // namespace glint::jinja
