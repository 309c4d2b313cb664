// The callables and lazy values of Python and jinja2 that templates see: range, dict views, cycler,
// joiner, and the binding of arguments to parameters.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "text/jinja/object.h"

namespace glint::jinja {

class Range : public Object {
 public:
  Range(Int start, Int stop, Int step, int depth = 0)
      : Object(depth), start_(start), stop_(stop), step_(step) {}
  Int size() const;
  Int at(Int index) const { return start_ + index * step_; }
  bool contains(Int number) const;
  // The numbers at places `start` to `stop`, every step-th.
  Result<Value> slice(Runtime& runtime, Int start, Int stop, Int step) const;
  bool operator==(const Range& other) const;

  std::string type_name() const override { return "range"; }
  Result<std::string> repr(Runtime&) override;
  bool truthy() const override { return size() > 0; }
  Result<std::optional<Int>> length(Runtime&) override { return size(); }
  bool is_iterable() const override { return true; }
  std::shared_ptr<Iterator> iterate(Runtime& runtime, const Value& self) const override;
  std::optional<Value> item(const Value& index) const override;
  Result<std::optional<Value>> attribute(Runtime&, std::string_view name, const Value&) override;

 private:
  Int start_, stop_, step_;
};

// d.keys(), d.values(), d.items().
class DictView : public Object {
 public:
  enum Part { kKeys, kValues, kItems };
  DictView(Value dict, Part part, int depth) : Object(depth), dict_(std::move(dict)), part_(part) {}
  std::string type_name() const override;
  Result<std::string> repr(Runtime& runtime) override;
  bool truthy() const override { return dict_.as_dict().size() > 0; }
  Result<std::optional<Int>> length(Runtime&) override {
    return static_cast<Int>(dict_.as_dict().size());
  }
  bool is_iterable() const override { return true; }
  std::shared_ptr<Iterator> iterate(Runtime& runtime, const Value& self) const override;
  Result<Value> at(Runtime& runtime, std::size_t index) const;
  std::size_t size() const { return dict_.as_dict().size(); }

 private:
  Value dict_;
  Part part_;
};

// dict.fromkeys, of the type and of any dict.
Result<Value> dict_from_keys(Runtime& runtime, const Arguments& arguments);

// range, dict, namespace, cycler, joiner, raise_exception, strftime_now; nothing for another name.
Result<std::optional<Value>> global_function(Runtime& runtime, std::string_view name);

// The arguments of one call, in the order of the parameters; null where none was given.
class Bound {
 public:
  // `parameters` are "name" or, if they may be left out, "name?". Fails as Python does: too many,
  // repeated, unknown, missing.
  static Result<Bound> bind(std::string_view function, const Arguments& arguments,
                            std::initializer_list<std::string_view> parameters);

  const Value* operator[](std::size_t index) const { return values_[index]; }
  bool has(std::size_t index) const { return values_[index] != nullptr; }
  const Value& get(std::size_t index, const Value& otherwise) const {
    return values_[index] ? *values_[index] : otherwise;
  }

 private:
  std::vector<const Value*> values_;
};

// The value as an index or count: ints only. `what` names it in the error.
Result<Int> require_int(const Value& value);
Result<std::string> require_text(const Value& value, std::string_view what);

}  // namespace glint::jinja
