// Methods of dicts, lists and tuples, and the one of floats.
#include <cmath>

#include "text/jinja/functions.h"
#include "text/jinja/methods.h"
#include "text/jinja/operations.h"

namespace glint::jinja {
namespace {

template <DictView::Part kPart>
Result<Value> view(Runtime& runtime, const Value& self, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("dict method", arguments, {}));
  return runtime.make<DictView>(self.depth(), self, kPart);
}

Result<Value> get(Runtime& runtime, const Value& self, const Arguments& arguments) {
  if (!arguments.named.empty()) return invalid("dict.get() takes no keyword arguments");
  GLINT_TRY(const Bound bound, Bound::bind("get", arguments, {"key", "default?"}));
  GLINT_TRY(const std::string key, key_text(runtime, *bound[0]));
  const Value* found = self.as_dict().find(key);
  return found ? *found : bound.get(1, Value());
}

Result<Value> from_keys(Runtime& runtime, const Value&, const Arguments& arguments) {
  return dict_from_keys(runtime, arguments);
}

// Values do not change: a copy is the value itself.
Result<Value> copy(Runtime&, const Value& self, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("copy", arguments, {}));
  return self;
}

Result<bool> is_same(Runtime& runtime, const Value& a, const Value& b) {
  if (a.same_as(b)) return true;
  return equals(runtime, a, b);
}

Result<Value> count(Runtime& runtime, const Value& self, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("count", arguments, {"value"}));
  Int found = 0;
  for (const Value& item : self.items()) {
    GLINT_TRY(const bool same, is_same(runtime, item, *bound[0]));
    found += same;
  }
  return Value(found);
}

Result<Value> index(Runtime& runtime, const Value& self, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("index", arguments, {"value", "start?", "stop?"}));
  const Int size = static_cast<Int>(self.items().size());
  GLINT_TRY(Int start, require_int(bound.get(1, Value(0))));
  GLINT_TRY(Int stop, require_int(bound.get(2, Value(size))));
  if (start < 0) start = std::max<Int>(start + size, 0);
  if (stop < 0) stop += size;
  for (Int i = start; i < std::min(stop, size); ++i) {
    GLINT_TRY(const bool same,
              is_same(runtime, self.items()[static_cast<std::size_t>(i)], *bound[0]));
    if (same) return Value(i);
  }
  GLINT_TRY(const std::string text, to_repr(runtime, *bound[0]));
  return invalid(text + " is not in " + self.type_name());
}

Result<Value> is_integer(Runtime&, const Value& self, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("is_integer", arguments, {}));
  return Value(std::trunc(self.as_float()) == self.as_float() && !std::isinf(self.as_float()));
}

}  // namespace

Method find_method(const Value& value, std::string_view name) {
  return value.is_string() ? find_string_method(name) : find_container_method(value, name);
}

Method find_container_method(const Value& value, std::string_view name) {
  if (value.is_dict()) {
    if (name == "items") return view<DictView::kItems>;
    if (name == "keys") return view<DictView::kKeys>;
    if (name == "values") return view<DictView::kValues>;
    if (name == "get") return get;
    if (name == "fromkeys") return from_keys;
  }
  if (value.is_sequence()) {
    if (name == "count") return count;
    if (name == "index") return index;
  }
  if ((value.is_dict() || value.is_list()) && name == "copy") return copy;
  if (value.is_float() && name == "is_integer") return is_integer;
  return nullptr;
}

}  // namespace glint::jinja
