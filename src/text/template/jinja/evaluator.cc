// The half of the interpreter that evaluates expressions; interpreter.cc runs statements.
#include "text/template/jinja/builtins.h"
#include "text/template/jinja/interpreter.h"
#include "text/template/jinja/operations.h"

namespace glint::jinja {

Result<Value> Interpreter::eval(const Expr& expression, const Scope& scope) {
  const Runtime::Nesting nesting(runtime_);
  GLINT_TRY_STATUS(nesting.check());
  GLINT_TRY_STATUS(runtime_.budget.spend_steps(1));
  Result<Value> value = eval_node(expression, scope);
  if (!value.ok()) return locate(expression.position, std::move(value).take_error());
  return value;
}

Result<Value> Interpreter::eval_node(const Expr& expression, const Scope& scope) {
  using Kind = Expr::Kind;
  const auto part = [&](std::size_t i) { return eval(*expression.parts[i], scope); };
  switch (expression.kind) {
    case Kind::kConstant:
      return expression.constant;
    case Kind::kName:
      return eval_name(expression.name, scope);
    case Kind::kTuple:
    case Kind::kList: {
      GLINT_TRY(std::vector<Value> items, eval_all(expression.parts, scope));
      return expression.kind == Kind::kList ? runtime_.make_list(std::move(items))
                                            : runtime_.make_items(Items::kTuple, std::move(items));
    }
    case Kind::kDict:
      return eval_dict(expression, scope);
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
      return eval_slice(expression, scope);
    case Kind::kCall:
      return eval_call(expression, scope);
    case Kind::kFilter:
      return eval_filter(expression, scope);
    case Kind::kTest:
      return eval_test(expression, scope);
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
      return eval_concat(expression, scope);
    case Kind::kCompare:
      return eval_compare(expression, scope);
    case Kind::kConditional:
      return eval_conditional(expression, scope);
    case Kind::kNamespaceTarget:
      break;  // only ever assigned to
  }
  return Value();
}

Result<Value> Interpreter::eval_name(const std::string& name, const Scope& scope) {
  if (const Value* value = scope.find(name)) return *value;
  GLINT_TRY(const std::optional<Value> function, global_function(runtime_, name));
  return function ? *function : Value(Undefined{.name = name});
}

Result<std::vector<Value>> Interpreter::eval_all(const std::vector<ExprPtr>& expressions,
                                                 const Scope& scope) {
  std::vector<Value> values;
  values.reserve(expressions.size());
  for (const ExprPtr& expression : expressions) {
    GLINT_TRY(Value value, eval(*expression, scope));
    values.push_back(std::move(value));
  }
  return values;
}

Result<Value> Interpreter::eval_dict(const Expr& expression, const Scope& scope) {
  Dict dict;
  for (std::size_t i = 0; i < expression.parts.size(); i += 2) {
    GLINT_TRY(Value key, eval(*expression.parts[i], scope));
    GLINT_TRY(Value value, eval(*expression.parts[i + 1], scope));
    GLINT_TRY(std::string text, key_text(key));
    dict.set(std::move(text), std::move(key), std::move(value));
  }
  return runtime_.make_dict(std::move(dict));
}

Result<Value> Interpreter::eval_slice(const Expr& expression, const Scope& scope) {
  Value parts[4];
  for (std::size_t i = 0; i < 4; ++i) {
    if (!expression.parts[i]) continue;
    GLINT_TRY(parts[i], eval(*expression.parts[i], scope));
  }
  return slice(runtime_, parts[0], parts[1], parts[2], parts[3]);
}

Result<Arguments> Interpreter::eval_arguments(const CallArguments& arguments, const Scope& scope) {
  Arguments result;
  GLINT_TRY(result.positional, eval_all(arguments.positional, scope));
  for (const auto& [name, expression] : arguments.named) {
    GLINT_TRY(Value value, eval(*expression, scope));
    result.named.emplace_back(name, std::move(value));
  }
  return result;
}

Result<Value> Interpreter::eval_call(const Expr& expression, const Scope& scope) {
  GLINT_TRY(const Value callee, eval(*expression.parts[0], scope));
  GLINT_TRY(const Arguments arguments, eval_arguments(expression.arguments, scope));
  return call(runtime_, callee, arguments);
}

Result<Value> Interpreter::eval_filter(const Expr& expression, const Scope& scope) {
  const Filter filter = find_filter(expression.name);
  if (!filter) return unsupported_filter(expression.name);
  GLINT_TRY(const Value input, eval(*expression.parts[0], scope));
  GLINT_TRY(const Arguments arguments, eval_arguments(expression.arguments, scope));
  return filter(runtime_, input, arguments);
}

Result<Value> Interpreter::eval_test(const Expr& expression, const Scope& scope) {
  const Test test = find_test(expression.name);
  if (!test) return unsupported_test(expression.name);
  GLINT_TRY(const Value input, eval(*expression.parts[0], scope));
  GLINT_TRY(const Arguments arguments, eval_arguments(expression.arguments, scope));
  GLINT_TRY(const bool holds, test(runtime_, input, arguments));
  return Value(holds);
}

Result<Value> Interpreter::eval_concat(const Expr& expression, const Scope& scope) {
  GLINT_TRY(const std::vector<Value> values, eval_all(expression.parts, scope));
  std::string out;
  for (const Value& value : values) {
    GLINT_TRY(const std::string text, to_text(runtime_, value));
    GLINT_TRY_STATUS(runtime_.budget.spend_bytes(text.size()));
    out += text;
  }
  return Value(std::move(out));
}

Result<Value> Interpreter::eval_compare(const Expr& expression, const Scope& scope) {
  GLINT_TRY(Value left, eval(*expression.parts[0], scope));
  for (std::size_t i = 0; i < expression.comparisons.size(); ++i) {
    GLINT_TRY(Value right, eval(*expression.parts[i + 1], scope));
    GLINT_TRY(const bool holds, compare(runtime_, expression.comparisons[i], left, right));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Result<Value> Interpreter::eval_conditional(const Expr& expression, const Scope& scope) {
  GLINT_TRY(const Value test, eval(*expression.parts[0], scope));
  if (truthy(test)) return eval(*expression.parts[1], scope);
  if (expression.parts[2]) return eval(*expression.parts[2], scope);
  return Value(Undefined{.hint = str("the inline if-expression on line ", expression.position.line,
                                     " evaluated to false and no else section was defined.")});
}

}  // namespace glint::jinja
