// Lengths, iteration, indices and slices of everything that Python iterates.
#include <algorithm>

#include "text/jinja/characters.h"
#include "text/jinja/functions.h"
#include "text/jinja/operations.h"
#include "text/unicode.h"

namespace glint::jinja {
namespace {

// Over the items of a list or tuple, from either end.
class ItemIterator : public Iterator {
 public:
  ItemIterator(Runtime& runtime, Value sequence, bool backwards, int depth)
      : Iterator(depth, sequence.is_tuple() ? "tuple_iterator"
                        : backwards         ? "list_reverseiterator"
                                            : "list_iterator"),
        runtime_(runtime),
        sequence_(std::move(sequence)),
        backwards_(backwards) {}
  Result<std::optional<Value>> next() override {
    const std::vector<Value>& items = sequence_.items();
    if (next_ == items.size()) return std::nullopt;
    GLINT_TRY_STATUS(runtime_.budget.spend_steps(1));
    const std::size_t place = next_++;
    return std::optional<Value>(items[backwards_ ? items.size() - 1 - place : place]);
  }

 private:
  Runtime& runtime_;
  Value sequence_;
  bool backwards_;
  std::size_t next_ = 0;
};

class CharacterIterator : public Iterator {
 public:
  CharacterIterator(Runtime& runtime, Value text, int depth)
      : Iterator(depth, "str_iterator"), runtime_(runtime), text_(std::move(text)) {}
  Result<std::optional<Value>> next() override {
    const std::string& text = text_.text();
    if (next_ == text.size()) return std::nullopt;
    GLINT_TRY_STATUS(runtime_.budget.spend_steps(1));
    const std::size_t start = next_;
    next_code_point(text, next_);
    GLINT_TRY(Value character, runtime_.make_string(text.substr(start, next_ - start)));
    return character;
  }

 private:
  Runtime& runtime_;
  Value text_;
  std::size_t next_ = 0;
};

// Over a dict, a view of one, or a range: what knows its size and gives item i.
class IndexIterator : public Iterator {
 public:
  using At = std::function<Result<Value>(std::size_t)>;
  IndexIterator(Runtime& runtime, const char* type_name, std::size_t size, At at, bool backwards,
                int depth)
      : Iterator(depth, type_name),
        runtime_(runtime),
        size_(size),
        at_(std::move(at)),
        backwards_(backwards) {}
  Result<std::optional<Value>> next() override {
    if (next_ == size_) return std::nullopt;
    GLINT_TRY_STATUS(runtime_.budget.spend_steps(1));
    const std::size_t place = next_++;
    GLINT_TRY(Value value, at_(backwards_ ? size_ - 1 - place : place));
    return value;
  }

 private:
  Runtime& runtime_;
  std::size_t size_;
  At at_;
  bool backwards_;
  std::size_t next_ = 0;
};

class EmptyIterator : public Iterator {
 public:
  explicit EmptyIterator(int depth) : Iterator(depth) {}
  Result<std::optional<Value>> next() override { return std::nullopt; }
};

std::shared_ptr<Iterator> iterate_dict(Runtime& runtime, const Value& dict, bool backwards) {
  return std::make_shared<IndexIterator>(
      runtime, backwards ? "dict_reversekeyiterator" : "dict_keyiterator", dict.as_dict().size(),
      [dict](std::size_t i) -> Result<Value> { return dict.as_dict().entries()[i].key; }, backwards,
      dict.depth() + 1);
}

std::shared_ptr<Iterator> iterate_range(Runtime& runtime, const Value& range, bool backwards) {
  const Range* numbers = range.object_as<Range>();
  return std::make_shared<IndexIterator>(
      runtime, "range_iterator", static_cast<std::size_t>(numbers->size()),
      [range, numbers](std::size_t i) -> Result<Value> {
        return Value(numbers->at(static_cast<Int>(i)));
      },
      backwards, 1);
}

std::shared_ptr<Iterator> iterate_view(Runtime& runtime, const Value& view, bool backwards) {
  const DictView* items = view.object_as<DictView>();
  return std::make_shared<IndexIterator>(
      runtime, "dict_itemiterator", items->size(),
      [&runtime, view, items](std::size_t i) { return items->at(runtime, i); }, backwards,
      view.depth() + 1);
}

Error not_iterable(const Value& value) {
  return invalid("'" + value.type_name() + "' object is not iterable");
}

}  // namespace

std::shared_ptr<Iterator> Range::iterate(Runtime& runtime, const Value& self) const {
  return iterate_range(runtime, self, false);
}

std::shared_ptr<Iterator> DictView::iterate(Runtime& runtime, const Value& self) const {
  return iterate_view(runtime, self, false);
}

Result<Int> length(Runtime& runtime, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return Int{0};
    case Kind::kString:
      return static_cast<Int>(value.as_str().length);
    case Kind::kList:
    case Kind::kTuple:
      return static_cast<Int>(value.items().size());
    case Kind::kDict:
      return static_cast<Int>(value.as_dict().size());
    case Kind::kObject: {
      GLINT_TRY(const std::optional<Int> size, value.object()->length(runtime));
      if (size) return *size;
      break;
    }
    default:
      break;
  }
  return invalid("object of type '" + value.type_name() + "' has no len()");
}

bool is_iterable(const Value& value) {
  if (const Object* object = value.object_as<Object>()) return object->is_iterable();
  return value.is_undefined() || value.is_string() || value.is_sequence() || value.is_dict();
}

Result<std::shared_ptr<Iterator>> iterate(Runtime& runtime, const Value& value) {
  GLINT_TRY_STATUS(Runtime::check_depth(value.depth()));
  switch (value.kind()) {
    case Kind::kUndefined:
      return std::make_shared<EmptyIterator>(1);
    case Kind::kString:
      return std::make_shared<CharacterIterator>(runtime, value, 1);
    case Kind::kList:
    case Kind::kTuple:
      return std::make_shared<ItemIterator>(runtime, value, false, value.depth() + 1);
    case Kind::kDict:
      return iterate_dict(runtime, value, false);
    case Kind::kObject:
      if (std::shared_ptr<Iterator> iterator = value.object()->iterate(runtime, value))
        return iterator;
      break;
    default:
      break;
  }
  return not_iterable(value);
}

Result<std::vector<Value>> to_vector(Runtime& runtime, const Value& value) {
  if (value.is_sequence()) {
    GLINT_TRY_STATUS(runtime.budget.spend_steps(value.items().size()));
    return value.items();
  }
  GLINT_TRY(const std::shared_ptr<Iterator> iterator, iterate(runtime, value));
  std::vector<Value> items;
  for (;;) {
    GLINT_TRY(std::optional<Value> next, iterator->next());
    if (!next) return items;
    GLINT_TRY_STATUS(runtime.budget.spend_bytes(sizeof(Value)));
    items.push_back(std::move(*next));
  }
}

Result<std::shared_ptr<Iterator>> reversed(Runtime& runtime, const Value& value) {
  GLINT_TRY_STATUS(Runtime::check_depth(value.depth()));
  if (value.is_sequence()) {
    return std::make_shared<ItemIterator>(runtime, value, true, value.depth() + 1);
  }
  if (value.is_dict()) return iterate_dict(runtime, value, true);
  if (value.object_as<Range>()) return iterate_range(runtime, value, true);
  if (value.object_as<DictView>()) return iterate_view(runtime, value, true);
  if (value.is_undefined()) return std::make_shared<EmptyIterator>(1);
  if (value.is_string()) {
    GLINT_TRY(std::vector<Value> characters, to_vector(runtime, value));
    GLINT_TRY(const Value list, runtime.make_list(std::move(characters)));
    return reversed(runtime, list);
  }
  return invalid("'" + value.type_name() + "' object is not reversible");
}

std::optional<std::size_t> wrap_index(Int index, std::size_t length) {
  const Int size = static_cast<Int>(length);
  if (index < -size || index >= size) return {};
  return static_cast<std::size_t>(index < 0 ? index + size : index);
}

namespace {

struct Slice {
  Int start, stop, step;
  Int count;  // items start, start + step, ...: `count` of them
};

Error bad_bound() {
  return invalid("slice indices must be integers or None or have an __index__ method");
}

// One bound of a slice: moved into [low, high] as Python does.
Result<Int> slice_bound(const Value& bound, Int otherwise, Int low, Int high, Int size) {
  if (bound.is_none()) return otherwise;
  if (bound.kind() == Kind::kBigInt) return bound.big_digits()[0] == '-' ? low : high;
  if (!bound.is_int()) return bad_bound();
  Int value = bound.as_int();
  if (value < 0) value = value < -size ? low : value + size;
  return std::clamp(value, low, high);
}

Result<Slice> make_slice(const Value& start, const Value& stop, const Value& step, Int size) {
  if (!step.is_none() && !step.is_int()) return bad_bound();
  const Int stride = step.is_none() ? 1 : std::max(step.as_int(), -INT64_MAX);
  if (stride == 0) return invalid("slice step cannot be zero");
  const bool forward = stride > 0;
  const Int low = forward ? 0 : -1, high = forward ? size : size - 1;
  GLINT_TRY(const Int first, slice_bound(start, forward ? low : high, low, high, size));
  GLINT_TRY(const Int last, slice_bound(stop, forward ? high : low, low, high, size));
  Int count = 0;
  if (forward && first < last) count = (last - first - 1) / stride + 1;
  if (!forward && last < first) count = (first - last - 1) / -stride + 1;
  return Slice{first, last, stride, count};
}

Result<Value> slice_text(Runtime& runtime, const Value& value, const Slice& range) {
  const Str& text = value.as_str();
  GLINT_TRY_STATUS(runtime.budget.spend_steps(text.bytes.size() / 64));
  if (range.count == 0) return Value(std::string(), text.markup);
  if (range.step == 1) {
    std::size_t begin = static_cast<std::size_t>(range.start),
                size = static_cast<std::size_t>(range.count);
    if (!text.is_ascii()) {
      begin = byte_offset(text.bytes, begin);
      size = byte_offset(std::string_view(text.bytes).substr(begin), size);
    }
    return runtime.make_string(text.bytes.substr(begin, size), text.markup);
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

Result<Value> slice(Runtime& runtime, const Value& value, const Value& start, const Value& stop,
                    const Value& step) {
  if (value.is_undefined()) return undefined_error(value);
  const Range* numbers = value.object_as<Range>();
  if (!value.is_string() && !value.is_sequence() && !numbers) {
    if (value.is_dict()) return invalid("unhashable type: 'slice'");
    return invalid("'" + value.type_name() + "' object is not subscriptable");
  }
  GLINT_TRY(const Int size, length(runtime, value));
  GLINT_TRY(const Slice range, make_slice(start, stop, step, size));
  if (value.is_string()) return slice_text(runtime, value, range);
  if (numbers) return numbers->slice(runtime, range.start, range.stop, range.step);
  std::vector<Value> items;
  GLINT_TRY_STATUS(runtime.budget.spend_steps(static_cast<std::uint64_t>(range.count)));
  for (Int i = 0; i < range.count; ++i) {
    items.push_back(value.items()[static_cast<std::size_t>(range.start + i * range.step)]);
  }
  return value.is_list() ? runtime.make_list(std::move(items))
                         : runtime.make_tuple(std::move(items));
}

namespace {

// Merge sort of places [begin, end): stable, and sound whatever the order says (NaN, errors).
Status merge_sort(Runtime& runtime, const std::vector<Value>& keys,
                  std::vector<std::size_t>& places, std::vector<std::size_t>& spare,
                  std::size_t begin, std::size_t end) {
  if (end - begin < 2) return Ok{};
  const std::size_t middle = begin + (end - begin) / 2;
  GLINT_TRY_STATUS(merge_sort(runtime, keys, places, spare, begin, middle));
  GLINT_TRY_STATUS(merge_sort(runtime, keys, places, spare, middle, end));
  std::copy(places.begin() + begin, places.begin() + end, spare.begin() + begin);
  std::size_t left = begin, right = middle;
  for (std::size_t out = begin; out < end; ++out) {
    bool take_right = left == middle;
    if (left < middle && right < end) {
      GLINT_TRY(take_right, less(runtime, keys[spare[right]], keys[spare[left]]));
    }
    places[out] = spare[take_right ? right++ : left++];
  }
  return Ok{};
}

}  // namespace

Status sort_by_keys(Runtime& runtime, std::vector<Value>& items, const std::vector<Value>& keys,
                    bool reverse) {
  std::vector<std::size_t> places(items.size()), spare(items.size());
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = reverse ? items.size() - 1 - i : i;
  GLINT_TRY_STATUS(merge_sort(runtime, keys, places, spare, 0, places.size()));
  if (reverse) std::reverse(places.begin(), places.end());
  std::vector<Value> sorted;
  sorted.reserve(items.size());
  for (const std::size_t place : places) sorted.push_back(items[place]);
  items = std::move(sorted);
  return Ok{};
}

}  // namespace glint::jinja
