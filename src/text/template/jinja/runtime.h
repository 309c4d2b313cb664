// Runtime: the budget of one rendering, and the making of values, which spends from it.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/template/jinja/budget.h"
#include "text/template/jinja/object.h"

namespace glint::jinja {

class Runtime {
 public:
  Runtime(const Limits& limits, std::time_t now) : budget(limits), now(now) {}
  ~Runtime() {
    for (const auto& space : namespaces_) space->clear();
  }
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  Result<Value> make_items(Items::Type type, std::vector<Value> values);
  Result<Value> make_list(std::vector<Value> values) {
    return make_items(Items::kList, std::move(values));
  }
  // Yields the values, or their error where a value is taken.
  Result<Value> make_generator(Result<std::vector<Value>> values);
  Result<Value> make_dict(Dict dict);
  Result<Value> make_string(std::string text, bool markup = false);
  // A function that holds values `held` deep.
  Result<Value> make_function(Function::Body body, int held = 0);
  // Kept to the end of the rendering, because it may come to hold itself or head a long chain.
  Result<Value> make_namespace(Dict attributes);

  // Refuses a value that would hold something `held` deep.
  static Status check_depth(int held);

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
  std::vector<std::shared_ptr<Namespace>> namespaces_;
  int depth_ = 0;
  // Where the stack stood when the rendering began.
  const char* const stack_base_ = static_cast<const char*>(__builtin_frame_address(0));
};

}  // namespace glint::jinja
