// Object: the values that are neither numbers, texts, lists nor dicts: ranges, iterators, dict
// views, functions, macros, namespaces, the loop variable. And Runtime: what all operations on
// values share during one rendering.
#pragma once

#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja/budget.h"
#include "text/jinja/value.h"

namespace glint::jinja {

class Iterator;
class Runtime;

// What a call passes: f(1, 2, key=3).
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
  // The module of the type with a dot, empty for Python's own types.
  virtual std::string module() const { return ""; }
  virtual Result<std::string> repr(Runtime& runtime);
  virtual bool truthy() const { return true; }
  // len(x), or nothing if it has none.
  virtual Result<std::optional<Int>> length(Runtime&) { return std::nullopt; }
  virtual bool is_iterable() const { return false; }
  // iter(x), or null if it cannot be iterated.
  virtual std::shared_ptr<Iterator> iterate(Runtime&, const Value& /*self*/) const {
    return nullptr;
  }
  // x[index], or nothing if it cannot be indexed so.
  virtual std::optional<Value> item(const Value& /*index*/) const { return {}; }
  // x.name, or nothing.
  virtual Result<std::optional<Value>> attribute(Runtime&, std::string_view,
                                                 const Value& /*self*/) {
    return std::nullopt;
  }
  virtual bool callable() const { return false; }
  virtual Result<Value> call(Runtime& runtime, const Arguments& arguments);
  // Lets go of what it holds: it may hold itself.
  virtual void release() {}

  int depth() const { return depth_; }

 private:
  const int depth_;
};

// Python's iterators and generators: lazy, and used up by iterating.
class Iterator : public Object {
 public:
  // Nothing at the end.
  virtual Result<std::optional<Value>> next() = 0;

  std::string type_name() const override { return type_name_; }
  bool is_iterable() const override { return true; }
  std::shared_ptr<Iterator> iterate(Runtime&, const Value& self) const override {
    return std::static_pointer_cast<Iterator>(self.object());
  }

 protected:
  explicit Iterator(int depth, const char* type_name = "generator")
      : Object(depth), type_name_(type_name) {}

 private:
  const char* type_name_;
};

// A callable of ours: a global function or a method bound to its value.
class Function : public Object {
 public:
  using Body = std::function<Result<Value>(Runtime&, const Arguments&)>;
  Function(std::string name, Body body, int depth)
      : Object(depth), name_(std::move(name)), body_(std::move(body)) {}
  std::string type_name() const override { return "builtin_function_or_method"; }
  bool callable() const override { return true; }
  Result<Value> call(Runtime& runtime, const Arguments& arguments) override {
    return body_(runtime, arguments);
  }

 private:
  std::string name_;
  Body body_;
};

// {{ namespace(a=1) }}: the one thing that a template can assign attributes of.
class Namespace : public Object {
 public:
  explicit Namespace(Dict attributes) : Object(0), attributes_(std::move(attributes)) {}
  std::string type_name() const override { return "Namespace"; }
  std::string module() const override { return "jinja2.utils."; }
  Result<std::string> repr(Runtime& runtime) override;
  Result<std::optional<Value>> attribute(Runtime&, std::string_view name, const Value&) override {
    const Value* found = attributes_.find(name);
    return found ? std::optional<Value>(*found) : std::optional<Value>();
  }
  void set(const std::string& name, Value value) { attributes_.set(name, name, std::move(value)); }
  void release() override { attributes_ = Dict(); }

 private:
  Dict attributes_;
};

class Runtime {
 public:
  Runtime(const Limits& limits, std::time_t now) : budget(limits), now(now) {}
  ~Runtime() {
    for (const auto& object : kept_) object->release();
  }
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // An object of depth 1 + `held`, the depth of what it holds.
  template <class T, class... Args>
  Result<Value> make(int held, Args&&... args) {
    GLINT_TRY_STATUS(check_depth(held));
    GLINT_TRY_STATUS(budget.spend_bytes(sizeof(T)));
    return Value(
        std::shared_ptr<Object>(std::make_shared<T>(std::forward<Args>(args)..., held + 1)));
  }
  Result<Value> make_list(std::vector<Value> items);
  Result<Value> make_tuple(std::vector<Value> items, bool is_group = false);
  Result<Value> make_dict(Dict dict);
  Result<Value> make_string(std::string text, bool markup = false);

  // Refuses a value that would hold something `held` deep.
  static Status check_depth(int held);

  // Releases `object` at the end of the rendering: for what can be part of a cycle.
  void keep(std::shared_ptr<Object> object) { kept_.push_back(std::move(object)); }

  // Frees values that may be the heads of long chains (a macro holds variables, which hold a macro
  // ...), without recursing along the chain.
  void bury(std::vector<std::optional<Value>> values);

  // `levels` of recursion deeper for as long as `Nesting` lives.
  class Nesting {
   public:
    explicit Nesting(Runtime& runtime, int levels = 1) : runtime_(runtime), levels_(levels) {
      runtime_.depth_ += levels_;
    }
    ~Nesting() { runtime_.depth_ -= levels_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    Status check() const;

   private:
    Runtime& runtime_;
    const int levels_;
  };

  Budget budget;
  const std::time_t now;

 private:
  std::vector<std::shared_ptr<Object>> kept_;
  std::vector<std::optional<Value>> buried_;
  bool is_burying_ = false;
  int depth_ = 0;
  // Where the stack stood when the rendering began.
  const char* const stack_base_ = static_cast<const char*>(__builtin_frame_address(0));
};

}  // namespace glint::jinja
