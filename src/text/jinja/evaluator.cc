// The half of the interpreter that evaluates expressions; interpreter.cc runs statements.
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operations.h"

namespace glint::jinja {

Result<Value> Interpreter::eval(const Expr& expression, const Context& context) {
  const Runtime::Nesting nesting(runtime_);
  GLINT_TRY_STATUS(nesting.check());
  GLINT_TRY_STATUS(runtime_.budget.spend_steps(1));
  Result<Value> value = eval_node(expression, context);
  if (!value.ok()) return locate(expression.position, std::move(value).take_error());
  return value;
}

Result<Value> Interpreter::eval_node(const Expr& expression, const Context& context) {
  using Kind = Expr::Kind;
  const auto part = [&](std::size_t i) { return eval(*expression.parts[i], context); };
  switch (expression.kind) {
    case Kind::kConstant:
      return expression.constant;
    case Kind::kName:
      return load(expression, context);
    case Kind::kTuple:
    case Kind::kList: {
      GLINT_TRY(std::vector<Value> items, eval_all(expression.parts, context));
      return expression.kind == Kind::kList ? runtime_.make_list(std::move(items))
                                            : runtime_.make_tuple(std::move(items));
    }
    case Kind::kDict:
      return eval_dict(expression, context);
    case Kind::kAttribute: {
      GLINT_TRY(const Value owner, part(0));
      return get_attribute(runtime_, owner, expression.name);
    }
    case Kind::kItem: {
      GLINT_TRY(const Value owner, part(0));
      GLINT_TRY(const Value key, part(1));
      return get_item(runtime_, owner, key);
    }
    case Kind::kSlice:
      return eval_slice(expression, context);
    case Kind::kCall:
      return eval_call(expression, context, nullptr);
    case Kind::kFilter:
      return eval_filter(expression, context);
    case Kind::kTest:
      return eval_test(expression, context);
    case Kind::kNegate:
    case Kind::kPositive: {
      GLINT_TRY(const Value operand, part(0));
      return expression.kind == Kind::kNegate ? negate(operand) : positive(operand);
    }
    case Kind::kNot: {
      GLINT_TRY(const Value operand, part(0));
      return Value(!truthy(operand));
    }
    case Kind::kAnd:
    case Kind::kOr: {
      GLINT_TRY(const Value left, part(0));
      if (truthy(left) == (expression.kind == Kind::kOr)) return left;
      return part(1);
    }
    case Kind::kArithmetic: {
      GLINT_TRY(const Value left, part(0));
      GLINT_TRY(const Value right, part(1));
      return calculate(runtime_, expression.operation, left, right);
    }
    case Kind::kConcat:
      return eval_concat(expression, context);
    case Kind::kCompare:
      return eval_compare(expression, context);
    case Kind::kConditional:
      return eval_conditional(expression, context);
    case Kind::kNamespaceTarget:
      break;  // only ever assigned to
  }
  return Value();
}

Result<Value> Interpreter::load(const Expr& name, const Context& context) {
  const std::optional<Value>& slot = slot_of(context.variables, name.slot);
  return slot ? *slot : Value(Undefined{.name = name.name});
}

Result<std::vector<Value>> Interpreter::eval_all(const std::vector<ExprPtr>& expressions,
                                                 const Context& context) {
  std::vector<Value> values;
  values.reserve(expressions.size());
  for (const ExprPtr& expression : expressions) {
    GLINT_TRY(Value value, eval(*expression, context));
    values.push_back(std::move(value));
  }
  return values;
}

Result<Value> Interpreter::eval_dict(const Expr& expression, const Context& context) {
  Dict dict;
  for (std::size_t i = 0; i < expression.parts.size(); i += 2) {
    GLINT_TRY(Value key, eval(*expression.parts[i], context));
    GLINT_TRY(Value value, eval(*expression.parts[i + 1], context));
    GLINT_TRY(std::string text, key_text(runtime_, key));
    dict.set(std::move(text), std::move(key), std::move(value));
  }
  return runtime_.make_dict(std::move(dict));
}

Result<Value> Interpreter::eval_slice(const Expr& expression, const Context& context) {
  Value parts[4];
  for (std::size_t i = 0; i < 4; ++i) {
    if (!expression.parts[i]) continue;
    GLINT_TRY(parts[i], eval(*expression.parts[i], context));
  }
  return slice(runtime_, parts[0], parts[1], parts[2], parts[3]);
}

Result<Arguments> Interpreter::eval_arguments(const CallArguments& arguments,
                                              const Context& context) {
  Arguments result;
  GLINT_TRY(result.positional, eval_all(arguments.positional, context));
  for (const auto& [name, expression] : arguments.named) {
    GLINT_TRY(Value value, eval(*expression, context));
    result.named.emplace_back(name, std::move(value));
  }
  if (arguments.star) {
    GLINT_TRY(const Value star, eval(*arguments.star, context));
    GLINT_TRY(const std::vector<Value> more, to_vector(runtime_, star));
    result.positional.insert(result.positional.end(), more.begin(), more.end());
  }
  if (arguments.double_star) {
    GLINT_TRY(const Value more, eval(*arguments.double_star, context));
    if (!more.is_dict()) {
      return invalid("argument after ** must be a mapping, not " + more.type_name());
    }
    for (const auto& [name, value] : result.named) {
      if (more.as_dict().find(name))
        return invalid("got multiple values for keyword argument '" + name + "'");
    }
    for (const Dict::Entry& entry : more.as_dict().entries()) {
      if (!entry.key.is_string()) return invalid("keywords must be strings");
      result.named.emplace_back(entry.key.text(), entry.value);
    }
  }
  return result;
}

Result<Value> Interpreter::eval_call(const Expr& expression, const Context& context,
                                     const Value* caller) {
  GLINT_TRY(const Value callee, eval(*expression.parts[0], context));
  GLINT_TRY(Arguments arguments, eval_arguments(expression.arguments, context));
  if (caller) arguments.named.emplace_back("caller", *caller);
  Result<Value> value = call(runtime_, callee, arguments);
  if (!value.ok()) return locate(expression.position, std::move(value).take_error());
  return value;
}

Result<Value> Interpreter::eval_filter(const Expr& expression, const Context& context) {
  const Filter filter = find_filter(expression.name);
  Value input;
  if (expression.parts[0]) {
    GLINT_TRY(input, eval(*expression.parts[0], context));
  } else {
    input = *context.block;
  }
  GLINT_TRY(const Arguments arguments, eval_arguments(expression.arguments, context));
  if (!filter) return invalid("No filter named '" + expression.name + "' found.");
  return filter(runtime_, input, arguments);
}

Result<Value> Interpreter::eval_test(const Expr& expression, const Context& context) {
  const Test test = find_test(expression.name);
  GLINT_TRY(const Value input, eval(*expression.parts[0], context));
  GLINT_TRY(const Arguments arguments, eval_arguments(expression.arguments, context));
  if (!test) return invalid("No test named '" + expression.name + "' found.");
  GLINT_TRY(const bool holds, test(runtime_, input, arguments));
  return Value(holds);
}

Result<Value> Interpreter::eval_concat(const Expr& expression, const Context& context) {
  GLINT_TRY(const std::vector<Value> values, eval_all(expression.parts, context));
  std::string out;
  for (const Value& value : values) {
    GLINT_TRY(const std::string text, to_text(runtime_, value));
    GLINT_TRY_STATUS(runtime_.budget.spend_bytes(text.size()));
    out += text;
  }
  return Value(std::move(out));
}

Result<Value> Interpreter::eval_compare(const Expr& expression, const Context& context) {
  GLINT_TRY(Value left, eval(*expression.parts[0], context));
  for (std::size_t i = 0; i < expression.comparisons.size(); ++i) {
    GLINT_TRY(Value right, eval(*expression.parts[i + 1], context));
    GLINT_TRY(const bool holds, compare(runtime_, expression.comparisons[i], left, right));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Result<Value> Interpreter::eval_conditional(const Expr& expression, const Context& context) {
  GLINT_TRY(const Value test, eval(*expression.parts[0], context));
  if (truthy(test)) return eval(*expression.parts[1], context);
  if (expression.parts[2]) return eval(*expression.parts[2], context);
  return Value(Undefined{.hint = str("the inline if-expression on line ", expression.position.line,
                                     " evaluated to false and no else section was defined.")});
}

}  // namespace glint::jinja
