#include "text/template/jinja/runtime.h"

#include <algorithm>
#include <cstddef>

#include "text/template/jinja/operations.h"

namespace glint::jinja {

Status Runtime::check_depth(int held) {
  if (held < kMaxValueDepth) return Ok{};
  return exhausted(str("values nest more than ", kMaxValueDepth, " deep"));
}

Status Runtime::Nesting::check() const {
  // Half of a thread's 8 MiB. Only builds with sanitizers, whose frames are large, get there.
  constexpr std::ptrdiff_t kMaxStackBytes = std::ptrdiff_t{4} << 20;
  const int limit = runtime_.budget.limits().max_depth;
  const auto* here = static_cast<const char*>(__builtin_frame_address(0));
  if (runtime_.depth_ <= limit && runtime_.stack_base_ - here < kMaxStackBytes) return Ok{};
  return exhausted(str("the template nests or recurses more than ", limit, " deep"));
}

Result<Value> Runtime::make_items(Items::Type type, std::vector<Value> values) {
  int depth = 0;
  for (const Value& value : values) depth = std::max(depth, value.depth());
  GLINT_TRY_STATUS(check_depth(depth));
  GLINT_TRY_STATUS(budget.spend_bytes(values.size() * sizeof(Value) + sizeof(Items)));
  return Value(std::make_shared<const Items>(
      Items{.type = type, .values = std::move(values), .depth = depth + 1}));
}

Result<Value> Runtime::make_generator(Result<std::vector<Value>> values) {
  if (values.ok()) return make_items(Items::kGenerator, std::move(values).value());
  if (values.error().code == ErrorCode::kResourceExhausted) return values.error();
  return Value(std::make_shared<const Items>(
      Items{.type = Items::kGenerator, .values = {}, .depth = 1, .failure = values.error()}));
}

Result<Value> Runtime::make_dict(Dict dict) {
  constexpr std::size_t kEntryBytes = 2 * sizeof(Dict::Entry);  // with its part of the index
  GLINT_TRY_STATUS(check_depth(dict.depth() - 1));
  GLINT_TRY_STATUS(budget.spend_bytes(dict.size() * kEntryBytes + sizeof(Dict)));
  return Value(std::make_shared<const Dict>(std::move(dict)));
}

Result<Value> Runtime::make_string(std::string text, bool markup) {
  constexpr std::size_t kAllocation = 32;  // the counter of its owners, the allocator's own
  GLINT_TRY_STATUS(budget.spend_bytes(text.size() + sizeof(Str) + kAllocation));
  return Value(std::move(text), markup);
}

Result<Value> Runtime::make_function(Function::Body body, int held) {
  GLINT_TRY_STATUS(check_depth(held));
  GLINT_TRY_STATUS(budget.spend_bytes(sizeof(Function)));
  return Value(std::shared_ptr<Object>(std::make_shared<Function>(std::move(body), held + 1)));
}

Result<Value> Runtime::make_namespace(Dict attributes) {
  GLINT_TRY_STATUS(budget.spend_bytes(sizeof(Namespace)));
  namespaces_.push_back(std::make_shared<Namespace>(std::move(attributes)));
  return Value(std::shared_ptr<Object>(namespaces_.back()));
}

Result<Value> Object::call(Runtime&, const Arguments&) {
  return invalid("'" + type_name() + "' object is not callable");
}

Result<Bound> Bound::bind(std::string_view function, const Arguments& arguments,
                          std::initializer_list<std::string_view> parameters) {
  Bound bound;
  bound.values_.resize(parameters.size());
  if (arguments.positional.size() > parameters.size()) {
    return invalid(str(function, "() takes ", parameters.size(), " positional arguments but ",
                       arguments.positional.size(), " were given"));
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i)
    bound.values_[i] = &arguments.positional[i];
  for (const auto& argument : arguments.named) {
    const std::string& name = argument.first;
    const auto* at = std::find_if(
        parameters.begin(), parameters.end(),
        [&](std::string_view parameter) { return parameter == name || parameter == name + "?"; });
    if (at == parameters.end())
      return invalid(str(function, "() got an unexpected keyword argument '", name, "'"));
    const Value*& place = bound.values_[static_cast<std::size_t>(at - parameters.begin())];
    if (place) return invalid(str(function, "() got multiple values for argument '", name, "'"));
    place = &argument.second;
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string_view parameter = parameters.begin()[i];
    if (!bound.values_[i] && !parameter.ends_with('?')) {
      return invalid(str(function, "() missing 1 required positional argument: '", parameter, "'"));
    }
  }
  return bound;
}

Result<Int> require_int(const Value& value) {
  if (value.is_int()) return value.as_int();
  if (value.kind() == Kind::kBigInt) return beyond_64_bits();
  if (value.is_undefined()) return undefined_error(value);
  return invalid("'" + value.type_name() + "' object cannot be interpreted as an integer");
}

Result<std::string> require_text(const Value& value, std::string_view what) {
  if (value.is_string()) return value.text();
  return invalid(str(what, " must be str, not ", value.type_name()));
}

}  // namespace glint::jinja
