// Object: the values that are neither numbers, texts, rows nor dicts: functions, macros,
// namespaces, the loop variable.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/template/jinja/value.h"

namespace glint::jinja {

class Runtime;

// The arguments of a call: f(1, 2, key=3).
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

class Object {
 public:
  explicit Object(int depth) : depth_(depth) {}
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  virtual std::string type_name() const = 0;
  // x.name, or nothing.
  virtual Result<std::optional<Value>> attribute(std::string_view) { return std::nullopt; }
  virtual Result<Value> call(Runtime& runtime, const Arguments& arguments);

  int depth() const { return depth_; }

 private:
  const int depth_;
};

// A global function, or a method bound to its value.
class Function : public Object {
 public:
  using Body = std::function<Result<Value>(Runtime&, const Arguments&)>;
  Function(Body body, int depth) : Object(depth), body_(std::move(body)) {}
  std::string type_name() const override { return "builtin_function_or_method"; }
  Result<Value> call(Runtime& runtime, const Arguments& arguments) override {
    return body_(runtime, arguments);
  }

 private:
  Body body_;
};

// {{ namespace(a=1) }}: the one thing that a template can assign attributes of.
class Namespace : public Object {
 public:
  explicit Namespace(Dict attributes) : Object(0), attributes_(std::move(attributes)) {}
  std::string type_name() const override { return "Namespace"; }
  Result<std::optional<Value>> attribute(std::string_view name) override {
    const Value* found = attributes_.find(name);
    return found ? std::optional<Value>(*found) : std::optional<Value>();
  }
  void set(const std::string& name, Value value) { attributes_.set(name, name, std::move(value)); }
  // Lets go of the attributes: one may be the namespace itself.
  void clear() { attributes_ = Dict(); }

 private:
  Dict attributes_;
};

// The arguments of one call, in the order of the parameters; null where none was given.
class Bound {
 public:
  // `parameters` are "name" or, if they may be left out, "name?". Fails as Python does: too many,
  // repeated, unknown, missing.
  static Result<Bound> bind(std::string_view function, const Arguments& arguments,
                            std::initializer_list<std::string_view> parameters);
  // Refused for temporaries: the result points into the arguments.
  static Result<Bound> bind(std::string_view function, Arguments&& arguments,
                            std::initializer_list<std::string_view> parameters) = delete;

  const Value& operator[](std::size_t index) const { return *values_[index]; }
  bool has(std::size_t index) const { return values_[index] != nullptr; }
  const Value& get(std::size_t index, const Value& otherwise) const {
    return values_[index] ? *values_[index] : otherwise;
  }

 private:
  std::vector<const Value*> values_;
};

// The value as an index or count, or as a text that an error calls `what`.
Result<Int> require_int(const Value& value);
Result<std::string> require_text(const Value& value, std::string_view what);

}  // namespace glint::jinja
