#include "text/jinja/loop.h"

#include "text/jinja/functions.h"
#include "text/jinja/operations.h"

namespace glint::jinja {
namespace {

// The rest of a generator that was read to count it.
class Rest : public Iterator {
 public:
  Rest(std::vector<Value> items, int depth) : Iterator(depth), items_(std::move(items)) {}
  Result<std::optional<Value>> next() override {
    if (next_ == items_.size()) return std::nullopt;
    return std::move(items_[next_++]);
  }

 private:
  std::vector<Value> items_;
  std::size_t next_ = 0;
};

}  // namespace

Loop::~Loop() {
  std::vector<std::optional<Value>> held;
  for (std::optional<Value>* value : {&before_, &current_, &after_})
    held.push_back(std::move(*value));
  if (last_changed_) held.insert(held.end(), last_changed_->begin(), last_changed_->end());
  last_changed_.reset();
  interpreter_.runtime().bury(std::move(held));
}

Result<std::optional<Value>> Loop::advance() {
  GLINT_TRY(const bool more, has_next());
  if (!more) return std::nullopt;
  ++index_;
  before_ = std::move(current_);
  current_ = std::move(after_);
  after_.reset();
  return current_;
}

Result<bool> Loop::has_next() {
  if (after_) return true;
  if (is_exhausted_) return false;
  GLINT_TRY(after_, items_->next());
  is_exhausted_ = !after_;
  return !is_exhausted_;
}

Result<Int> Loop::count() {
  if (count_) return *count_;
  Result<Int> known = jinja::length(interpreter_.runtime(), iterable_);
  if (known.ok()) {
    count_ = known.value();
    return *count_;
  }
  GLINT_TRY(std::vector<Value> rest,
            to_vector(interpreter_.runtime(), Value(std::shared_ptr<Object>(items_))));
  count_ = static_cast<Int>(rest.size()) + index_ + 1 + (after_ ? 1 : 0);
  items_ = std::make_shared<Rest>(std::move(rest), items_->depth());
  return *count_;
}

Result<std::optional<Int>> Loop::length(Runtime&) {
  GLINT_TRY(const Int size, count());
  return size;
}

Result<Value> Loop::next_item() {
  GLINT_TRY(const bool more, has_next());
  return more ? *after_ : Value(Undefined{.hint = "there is no next item"});
}

Value Loop::previous_item() const {
  return before_ ? *before_ : Value(Undefined{.hint = "there is no previous item"});
}

Result<Value> Loop::cycle(const Arguments& arguments) const {
  if (arguments.positional.empty()) return invalid("no items for cycling given");
  return arguments.positional[static_cast<std::size_t>(index_) % arguments.positional.size()];
}

Result<Value> Loop::changed(Runtime& runtime, const Arguments& arguments) {
  bool same = last_changed_ && last_changed_->size() == arguments.positional.size();
  for (std::size_t i = 0; same && i < last_changed_->size(); ++i) {
    GLINT_TRY(same, equals(runtime, (*last_changed_)[i], arguments.positional[i]));
  }
  if (!same) last_changed_ = arguments.positional;
  return Value(!same);
}

Result<std::optional<Value>> Loop::attribute(Runtime& runtime, std::string_view name,
                                             const Value& self) {
  if (name == "index") return index_ + 1;
  if (name == "index0") return index_;
  if (name == "first") return index_ == 0;
  if (name == "depth") return level_ + 1;
  if (name == "depth0") return level_;
  if (name == "previtem") return previous_item();
  if (name == "last") {
    GLINT_TRY(const bool more, has_next());
    return !more;
  }
  if (name == "nextitem") {
    GLINT_TRY(Value next, next_item());
    return next;
  }
  if (name == "length" || name == "revindex" || name == "revindex0") {
    GLINT_TRY(const Int size, count());
    return name == "length" ? size : size - index_ - (name == "revindex0" ? 1 : 0);
  }
  if (name == "cycle" || name == "changed") {
    const bool is_cycle = name == "cycle";
    GLINT_TRY(Value method,
              runtime.make<Function>(
                  depth(), std::string(name),
                  [self, this, is_cycle](Runtime& runtime, const Arguments& arguments) {
                    return is_cycle ? cycle(arguments) : changed(runtime, arguments);
                  }));
    return method;
  }
  return std::nullopt;
}

Result<Value> Loop::call(Runtime&, const Arguments& arguments) {
  if (!recurse_)
    return invalid("The loop must have the 'recursive' marker to be called recursively.");
  GLINT_TRY(const Bound bound, Bound::bind("loop", arguments, {"iterable"}));
  return interpreter_.run_recursive_loop(*recurse_, closure_, *bound[0], level_ + 1);
}

Result<std::string> Loop::repr(Runtime& runtime) {
  GLINT_TRY(const std::optional<Int> size, length(runtime));
  return str("<LoopContext ", index_ + 1, "/", *size, ">");
}

Result<std::string> MacroObject::repr(Runtime&) {
  return "<Macro " + (macro_.name.empty() ? std::string("anonymous") : string_repr(macro_.name)) +
         ">";
}

Result<std::optional<Value>> MacroObject::attribute(Runtime& runtime, std::string_view name,
                                                    const Value&) {
  if (name == "name") return macro_.name.empty() ? Value() : Value(macro_.name);
  if (name == "catch_kwargs") return macro_.kwargs_slot >= 0;
  if (name == "catch_varargs") return macro_.varargs_slot >= 0;
  if (name == "caller") return macro_.caller_slot >= 0;
  if (name == "explicit_caller") return macro_.explicit_caller;
  if (name != "arguments") return std::nullopt;
  std::vector<Value> names(macro_.parameters.begin(), macro_.parameters.end());
  GLINT_TRY(Value tuple, runtime.make_tuple(std::move(names)));
  return tuple;
}

Result<std::optional<Value>> TestedIterator::next() {
  for (;;) {
    GLINT_TRY(std::optional<Value> item, items_->next());
    if (!item) return item;
    GLINT_TRY(const bool passes, interpreter_.test_item(loop_, closure_, *item));
    if (passes) return item;
  }
}

}  // namespace glint::jinja
