// The `loop` variable of a for loop, which is also what goes through its items.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template/jinja/object.h"

namespace glint::jinja {

class Loop : public Object {
 public:
  // The test of "for x in y if test"; empty if there is none. It is asked as late as can be,
  // because it may read a namespace that the body assigns to.
  using Test = std::function<Result<bool>(const Value&)>;

  Loop(std::vector<Value> items, Test test, int depth)
      : Object(depth), items_(std::move(items)), test_(std::move(test)) {}

  // Goes to the next item that passes; null at the end.
  Result<const Value*> advance();
  // No more items, and no more tests: the loop is left, though a namespace may still hold it.
  void close();

  std::string type_name() const override { return "LoopContext"; }
  Result<std::optional<Value>> attribute(std::string_view name) override;

 private:
  Result<bool> has_next();
  Result<Int> count();

  std::vector<Value> items_;
  Test test_;
  std::size_t next_ = 0;  // where the next item lies, if it is known, or is looked for
  bool is_known_ = false;
  Int index_ = -1;  // of the current item, among those that passed
  std::optional<std::size_t> before_, current_;
};

}  // namespace glint::jinja
