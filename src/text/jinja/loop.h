// The `loop` variable of a for loop, macros as values, and the iterator behind "for x in y if
// test".
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/jinja/interpreter.h"

namespace glint::jinja {

class Loop : public Object {
 public:
  // `iterable` tells the length, if it has one; `recurse` (or null) is the loop that loop(...)
  // runs.
  Loop(Interpreter& interpreter, Value iterable, std::shared_ptr<Iterator> items,
       const ForLoop* recurse, std::shared_ptr<Activation> closure, int level, int depth)
      : Object(depth),
        interpreter_(interpreter),
        iterable_(std::move(iterable)),
        items_(std::move(items)),
        recurse_(recurse),
        closure_(std::move(closure)),
        level_(level) {}
  ~Loop() override;

  // Goes to the next item; nothing at the end.
  Result<std::optional<Value>> advance();

  std::string type_name() const override { return "LoopContext"; }
  std::string module() const override { return "jinja2.runtime."; }
  Result<std::string> repr(Runtime& runtime) override;
  Result<std::optional<Int>> length(Runtime& runtime) override;
  bool is_iterable() const override { return true; }
  Result<std::optional<Value>> attribute(Runtime& runtime, std::string_view name,
                                         const Value& self) override;
  bool callable() const override { return true; }
  Result<Value> call(Runtime& runtime, const Arguments& arguments) override;

 private:
  Result<Int> count();
  Result<bool> has_next();
  Result<Value> next_item();
  Value previous_item() const;
  Result<Value> cycle(const Arguments& arguments) const;
  Result<Value> changed(Runtime& runtime, const Arguments& arguments);

  Interpreter& interpreter_;
  Value iterable_;
  std::shared_ptr<Iterator> items_;
  const ForLoop* recurse_;
  std::shared_ptr<Activation> closure_;
  int level_;  // of recursion, from 0
  Int index_ = -1;
  std::optional<Int> count_;
  std::optional<Value> before_, current_, after_;
  bool is_exhausted_ = false;  // after_ was looked for and there is none
  std::optional<std::vector<Value>> last_changed_;
};

class MacroObject : public Object {
 public:
  MacroObject(Interpreter& interpreter, const MacroDefinition& macro,
              std::shared_ptr<Activation> closure)
      : Object(0), interpreter_(interpreter), macro_(macro), closure_(std::move(closure)) {}
  std::string type_name() const override { return "Macro"; }
  std::string module() const override { return "jinja2.runtime."; }
  Result<std::string> repr(Runtime&) override;
  Result<std::optional<Value>> attribute(Runtime& runtime, std::string_view name,
                                         const Value&) override;
  bool callable() const override { return true; }
  Result<Value> call(Runtime&, const Arguments& arguments) override {
    return interpreter_.call_macro(macro_, closure_, arguments);
  }

 private:
  Interpreter& interpreter_;
  const MacroDefinition& macro_;
  std::shared_ptr<Activation> closure_;
};

class TestedIterator : public Iterator {
 public:
  TestedIterator(Interpreter& interpreter, std::shared_ptr<Iterator> items, const ForLoop& loop,
                 std::shared_ptr<Activation> closure)
      : Iterator(items->depth() + 1),
        interpreter_(interpreter),
        items_(std::move(items)),
        loop_(loop),
        closure_(std::move(closure)) {}
  Result<std::optional<Value>> next() override;

 private:
  Interpreter& interpreter_;
  std::shared_ptr<Iterator> items_;
  const ForLoop& loop_;
  std::shared_ptr<Activation> closure_;
};

}  // namespace glint::jinja
