#include "text/template/jinja/interpreter.h"

#include <algorithm>

#include "text/template/jinja/loop.h"

namespace glint::jinja {
namespace {

// A call takes the stack of several expressions. In Python it takes five frames of a thousand.
constexpr int kCallLevels = 5;

class Macro : public Object {
 public:
  Macro(Interpreter& interpreter, const MacroDefinition& definition)
      : Object(0), interpreter_(interpreter), definition_(definition) {}
  std::string type_name() const override { return "Macro"; }
  Result<std::optional<Value>> attribute(std::string_view name) override {
    return invalid(str("the attribute '", name, "' of a macro is not supported"));
  }
  Result<Value> call(Runtime&, const Arguments& arguments) override {
    return interpreter_.call_macro(definition_, arguments);
  }

 private:
  Interpreter& interpreter_;
  const MacroDefinition& definition_;
};

}  // namespace

Interpreter::Interpreter(Runtime& runtime, const Dict& variables)
    : runtime_(runtime), variables_(nullptr), top_(&variables_) {
  for (const auto& [key, value] : variables.entries()) variables_.set(key.text(), value);
}

Result<std::string> Interpreter::run(const TemplateTree& tree) {
  for (const std::string& name : tree.own_names) top_.set(name, Value(Undefined{.name = name}));
  std::string out;
  GLINT_TRY_STATUS(run_body(tree.body, top_, out));
  return out;
}

Error Interpreter::locate(Position position, Error error) {
  if (std::exchange(is_located_, true)) return error;
  return at(position, std::move(error));
}

Status Interpreter::append(const std::string& text, std::string& out) {
  GLINT_TRY_STATUS(runtime_.budget.spend_bytes(text.size()));
  const std::size_t limit = runtime_.budget.limits().max_output_bytes;
  if (text.size() > limit - std::min(limit, out.size())) {
    return exhausted(str("the template writes more than ", limit, " bytes"));
  }
  out += text;
  return Ok{};
}

Result<Interpreter::Flow> Interpreter::run_body(const Body& body, Scope& scope, std::string& out) {
  const Runtime::Nesting nesting(runtime_);
  GLINT_TRY_STATUS(nesting.check());
  for (const auto& statement : body) {
    GLINT_TRY_STATUS(runtime_.budget.spend_steps(1));
    Result<Flow> flow = run_statement(*statement, scope, out);
    if (!flow.ok()) return locate(statement->position, std::move(flow).take_error());
    if (flow.value() != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::run_statement(const Stmt& statement, Scope& scope,
                                                     std::string& out) {
  switch (statement.kind) {
    case Stmt::Kind::kData:
      GLINT_TRY_STATUS(append(statement.text, out));
      break;
    case Stmt::Kind::kOutput: {
      GLINT_TRY(const Value value, eval(*statement.value, scope));
      GLINT_TRY(const std::string text, to_text(runtime_, value));
      GLINT_TRY_STATUS(append(text, out));
      break;
    }
    case Stmt::Kind::kSet: {
      GLINT_TRY(Value value, eval(*statement.value, scope));
      GLINT_TRY_STATUS(assign(*statement.target, std::move(value), scope));
      break;
    }
    case Stmt::Kind::kSetBlock:
      return run_set_block(statement, scope);
    case Stmt::Kind::kFor:
      return run_for(statement, scope, out);
    case Stmt::Kind::kIf:
      return run_if(statement, scope, out);
    case Stmt::Kind::kMacro:
      scope.set(statement.macro->name,
                Value(std::shared_ptr<Object>(std::make_shared<Macro>(*this, *statement.macro))));
      break;
    case Stmt::Kind::kGeneration: {
      Scope inner(&scope);
      return run_body(statement.body, inner, out);
    }
    case Stmt::Kind::kWith:
      return run_with(statement, scope, out);
    case Stmt::Kind::kBreak:
      return Flow::kBreak;
    case Stmt::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::run_if(const Stmt& statement, Scope& scope,
                                              std::string& out) {
  for (const Stmt::Branch& branch : statement.branches) {
    bool taken = true;
    if (branch.test) {
      GLINT_TRY(const Value test, eval(*branch.test, scope));
      taken = truthy(test);
    }
    if (taken) return run_body(branch.body, scope, out);
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::run_for(const Stmt& statement, Scope& scope,
                                               std::string& out) {
  GLINT_TRY(const Value iterable, eval(*statement.value, scope));
  GLINT_TRY(std::vector<Value> items, to_vector(runtime_, iterable));
  GLINT_TRY_STATUS(Runtime::check_depth(iterable.depth()));
  Loop::Test test;
  if (statement.test) {
    test = [&](const Value& item) -> Result<bool> {
      Scope inner(&scope);
      GLINT_TRY_STATUS(runtime_.budget.spend_steps(1));
      GLINT_TRY_STATUS(assign(*statement.target, item, inner));
      GLINT_TRY(const Value passes, eval(*statement.test, inner));
      return truthy(passes);
    };
  }
  const auto loop = std::make_shared<Loop>(std::move(items), std::move(test), iterable.depth() + 1);
  struct Closer {
    Loop& loop;
    ~Closer() { loop.close(); }
  } closer{*loop};
  bool is_empty = true;  // jinja2: until a run of the body reaches its end
  for (;;) {
    GLINT_TRY(const Value* item, loop->advance());
    if (!item) break;
    Scope inner(&scope);
    GLINT_TRY_STATUS(runtime_.budget.spend_steps(1));
    inner.set("loop", Value(std::shared_ptr<Object>(loop)));
    GLINT_TRY_STATUS(assign(*statement.target, *item, inner));
    GLINT_TRY(const Flow flow, run_body(statement.body, inner, out));
    if (flow == Flow::kBreak) break;
    if (flow == Flow::kNext) is_empty = false;
  }
  if (!is_empty) return Flow::kNext;
  Scope inner(&scope);
  return run_body(statement.otherwise, inner, out);
}

Result<Interpreter::Flow> Interpreter::run_set_block(const Stmt& statement, Scope& scope) {
  Scope inner(&scope);
  std::string text;
  GLINT_TRY(const Flow flow, run_body(statement.body, inner, text));
  if (flow != Flow::kNext) return flow;
  GLINT_TRY(Value value, runtime_.make_string(std::move(text)));
  GLINT_TRY_STATUS(assign(*statement.target, std::move(value), scope));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::run_with(const Stmt& statement, Scope& scope,
                                                std::string& out) {
  Scope inner(&scope);
  for (const auto& [target, expression] : statement.assignments) {
    GLINT_TRY(Value value, eval(*expression, scope));
    GLINT_TRY_STATUS(assign(*target, std::move(value), inner));
  }
  return run_body(statement.body, inner, out);
}

Status Interpreter::assign(const Expr& target, Value value, Scope& scope) {
  if (target.kind == Expr::Kind::kName) {
    scope.set(target.name, std::move(value));
    return Ok{};
  }
  if (target.kind == Expr::Kind::kNamespaceTarget) {
    const Value* owner = scope.find(target.name);
    Namespace* space = owner ? owner->object_as<Namespace>() : nullptr;
    if (!space)
      return locate(target.position, invalid("cannot assign attribute on non-namespace object"));
    space->set(target.attribute, std::move(value));
    return Ok{};
  }
  if (!is_iterable(value)) {
    return locate(target.position,
                  invalid("cannot unpack non-iterable " + value.type_name() + " object"));
  }
  GLINT_TRY(const std::vector<Value> items, to_vector(runtime_, value));
  if (items.size() != target.parts.size()) {
    const bool many = items.size() > target.parts.size();
    return locate(target.position,
                  invalid(str(many ? "too many" : "not enough", " values to unpack (expected ",
                              target.parts.size(), many ? ")" : str(", got ", items.size(), ")"))));
  }
  for (std::size_t i = 0; i < items.size(); ++i)
    GLINT_TRY_STATUS(assign(*target.parts[i], items[i], scope));
  return Ok{};
}

Status Interpreter::bind_parameters(const MacroDefinition& macro, const Arguments& arguments,
                                    Scope& scope) {
  const std::size_t count = macro.parameters.size(), given = arguments.positional.size();
  if (given > count) {
    return invalid(str("macro '", macro.name, "' takes not more than ", count, " argument(s)"));
  }
  GLINT_TRY_STATUS(runtime_.budget.spend_steps(count * (1 + arguments.named.size()) / 8));
  for (const auto& [name, value] : arguments.named) {
    const auto at = std::find(macro.parameters.begin(), macro.parameters.end(), name);
    const bool is_free = at != macro.parameters.end() &&
                         static_cast<std::size_t>(at - macro.parameters.begin()) >= given;
    if (!is_free)
      return invalid(str("macro '", macro.name, "' takes no keyword argument '", name, "'"));
  }
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& parameter = macro.parameters[i];
    const auto named = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [&](const auto& entry) { return entry.first == parameter; });
    if (i < given) {
      scope.set(parameter, arguments.positional[i]);
    } else if (named != arguments.named.end()) {
      scope.set(parameter, named->second);
    } else {
      scope.set(parameter,
                Value(Undefined{.hint = "parameter '" + parameter + "' was not provided"}));
      missing.push_back(i);
    }
  }
  // A default sees the parameters before it.
  const std::size_t num_required = count - macro.defaults.size();
  for (const std::size_t i : missing) {
    if (i < num_required) continue;
    GLINT_TRY(Value value, eval(*macro.defaults[i - num_required], scope));
    scope.set(macro.parameters[i], std::move(value));
  }
  return Ok{};
}

Result<Value> Interpreter::call_macro(const MacroDefinition& macro, const Arguments& arguments) {
  const Runtime::Nesting nesting(runtime_, kCallLevels);
  GLINT_TRY_STATUS(nesting.check());
  Scope scope(&top_);
  GLINT_TRY_STATUS(bind_parameters(macro, arguments, scope));
  std::string out;
  GLINT_TRY_STATUS(run_body(macro.body, scope, out));
  return runtime_.make_string(std::move(out));
}

}  // namespace glint::jinja
