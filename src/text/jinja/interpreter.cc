#include "text/jinja/interpreter.h"

#include <algorithm>

#include "text/jinja/functions.h"
#include "text/jinja/loop.h"
#include "text/jinja/operations.h"

namespace glint::jinja {
namespace {

// A call takes the stack of several expressions. In Python it takes five frames of a thousand.
constexpr int kCallLevels = 5;

}  // namespace

Interpreter::~Interpreter() {
  for (const ActivationPtr& activation : cyclic_)
    runtime_.bury(std::exchange(activation->slots, {}));
}

Result<std::string> Interpreter::run(const TemplateTree& tree) {
  const auto root = std::make_shared<Activation>(runtime_, tree.routine, nullptr);
  cyclic_.push_back(root);
  std::string out;
  GLINT_TRY_STATUS(enter(tree.routine.scope, *root));
  GLINT_TRY_STATUS(run_body(tree.body, Context{root, out}));
  return out;
}

Error Interpreter::locate(Position position, Error error) {
  if (std::exchange(is_located_, true)) return error;
  return at(position, std::move(error));
}

std::optional<Value>& Interpreter::slot_of(const ActivationPtr& activation, SlotRef ref) {
  Activation* at = activation.get();
  for (int i = 0; i < ref.hops; ++i) at = at->parent.get();
  return at->slots[static_cast<std::size_t>(ref.slot)];
}

Status Interpreter::enter(const Scope& scope, Activation& activation) {
  for (const Load& load : scope.loads) {
    std::optional<Value>& slot = activation.slots[static_cast<std::size_t>(load.slot)];
    switch (load.action) {
      case Load::kParameter:
        break;
      case Load::kUndefined:
        slot.reset();
        break;
      case Load::kAlias: {
        const Activation* at = &activation;
        for (int i = 0; i < load.from.hops; ++i) at = at->parent.get();
        slot = at->slots[static_cast<std::size_t>(load.from.slot)];
        break;
      }
      case Load::kResolve:
        if (const Value* variable = variables_.find(load.name)) {
          slot = *variable;
        } else {
          GLINT_TRY(slot, global_function(runtime_, load.name));
        }
    }
  }
  return Ok{};
}

Interpreter::ScopeGuard::~ScopeGuard() {
  for (const Load& load : scope_.loads)
    activation_.slots[static_cast<std::size_t>(load.slot)].reset();
}

Status Interpreter::append(const std::string& text, const Context& context) {
  GLINT_TRY_STATUS(runtime_.budget.spend_bytes(text.size()));
  const std::size_t limit = runtime_.budget.limits().max_output_bytes;
  if (text.size() > limit - std::min(limit, context.out.size())) {
    return Error{ErrorCode::kResourceExhausted,
                 str("the template writes more than ", limit, " bytes")};
  }
  context.out += text;
  return Ok{};
}

Status Interpreter::append(const Value& value, const Context& context) {
  if (value.is_string()) return append(value.text(), context);
  GLINT_TRY(const std::string text, to_text(runtime_, value));
  return append(text, context);
}

Result<Interpreter::Flow> Interpreter::run_body(const Body& body, const Context& context) {
  const Runtime::Nesting nesting(runtime_);
  GLINT_TRY_STATUS(nesting.check());
  for (const auto& statement : body) {
    GLINT_TRY_STATUS(runtime_.budget.spend_steps(1));
    Result<Flow> flow = run_statement(*statement, context);
    if (!flow.ok()) return locate(statement->position, std::move(flow).take_error());
    if (flow.value() != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::run_statement(const Stmt& statement,
                                                     const Context& context) {
  switch (statement.kind) {
    case Stmt::Kind::kData:
      GLINT_TRY_STATUS(append(statement.text, context));
      break;
    case Stmt::Kind::kOutput:
      GLINT_TRY_STATUS(run_output(statement, context));
      break;
    case Stmt::Kind::kSet: {
      GLINT_TRY(Value value, eval(*statement.value, context));
      GLINT_TRY_STATUS(assign(*statement.target, std::move(value), context));
      break;
    }
    case Stmt::Kind::kSetBlock:
      return run_set_block(statement, context);
    case Stmt::Kind::kFor:
      return run_for(statement, context);
    case Stmt::Kind::kIf:
      return run_if(statement, context);
    case Stmt::Kind::kMacro: {
      if (cyclic_.back() != context.variables) cyclic_.push_back(context.variables);
      slot_of(context.variables, statement.slot) = make_macro(*statement.macro, context.variables);
      break;
    }
    case Stmt::Kind::kCallBlock:
      GLINT_TRY_STATUS(run_call_block(statement, context));
      break;
    case Stmt::Kind::kGeneration: {
      GLINT_TRY(const Value text, call_macro(*statement.macro, context.variables, {}));
      GLINT_TRY_STATUS(append(text, context));
      break;
    }
    case Stmt::Kind::kFilterBlock:
      return run_filter_block(statement, context);
    case Stmt::Kind::kWith:
      return run_with(statement, context);
    case Stmt::Kind::kBreak:
      return Flow::kBreak;
    case Stmt::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Status Interpreter::run_output(const Stmt& statement, const Context& context) {
  for (const ExprPtr& expression : statement.expressions) {
    GLINT_TRY(const Value value, eval(*expression, context));
    GLINT_TRY_STATUS(append(value, context));
  }
  return Ok{};
}

Result<Interpreter::Flow> Interpreter::run_if(const Stmt& statement, const Context& context) {
  for (const Stmt::Branch& branch : statement.branches) {
    bool taken = true;
    if (branch.test) {
      GLINT_TRY(const Value test, eval(*branch.test, context));
      taken = truthy(test);
    }
    if (taken) return run_body(branch.body, context);
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::run_for(const Stmt& statement, const Context& context) {
  const ForLoop& loop = *statement.loop;
  GLINT_TRY(const Value iterable, eval(*loop.iterable, context));
  if (!loop.recursive) return run_loop(loop, iterable, 0, context, context.variables);
  GLINT_TRY(const Value text, run_recursive_loop(loop, context.variables, iterable, 0));
  GLINT_TRY_STATUS(append(text, context));
  return Flow::kNext;
}

Result<Value> Interpreter::run_recursive_loop(const ForLoop& loop, const ActivationPtr& closure,
                                              const Value& iterable, int depth) {
  const Runtime::Nesting nesting(runtime_, kCallLevels);
  GLINT_TRY_STATUS(nesting.check());
  const auto activation = std::make_shared<Activation>(runtime_, loop.routine, closure);
  std::string out;
  GLINT_TRY_STATUS(run_loop(loop, iterable, depth, Context{activation, out}, closure));
  return runtime_.make_string(std::move(out));
}

// `outer` are the variables around the loop, which its test sees.
Result<Interpreter::Flow> Interpreter::run_loop(const ForLoop& loop, const Value& iterable,
                                                int depth, const Context& context,
                                                const ActivationPtr& outer) {
  bool is_empty = true;  // jinja2: until a run of the body reaches its end
  {
    const ScopeGuard guard(loop.body_scope, *context.variables);
    GLINT_TRY(std::shared_ptr<Iterator> items, iterate(runtime_, iterable));
    Value source = iterable;
    if (loop.test) {
      GLINT_TRY_STATUS(Runtime::check_depth(items->depth()));
      items = std::make_shared<TestedIterator>(*this, std::move(items), loop, outer);
      source = Value(std::shared_ptr<Object>(items));
    }
    std::shared_ptr<Loop> variable;
    if (loop.uses_loop) {
      GLINT_TRY_STATUS(Runtime::check_depth(items->depth()));
      variable =
          std::make_shared<Loop>(*this, source, items, loop.recursive ? &loop : nullptr,
                                 loop.recursive ? outer : nullptr, depth, items->depth() + 1);
    }
    for (;;) {
      GLINT_TRY(std::optional<Value> item, variable ? variable->advance() : items->next());
      if (!item) break;
      GLINT_TRY_STATUS(runtime_.budget.spend_steps(1));
      GLINT_TRY_STATUS(assign(*loop.target, std::move(*item), context));
      if (variable) {
        context.variables->slots[static_cast<std::size_t>(loop.loop_slot)] =
            Value(std::shared_ptr<Object>(variable));
      }
      GLINT_TRY_STATUS(enter(loop.body_scope, *context.variables));
      GLINT_TRY(const Flow flow, run_body(loop.body, context));
      if (flow == Flow::kBreak) break;
      if (flow == Flow::kNext) is_empty = false;
    }
  }
  if (!is_empty || loop.otherwise.empty()) return Flow::kNext;
  const ScopeGuard guard(loop.else_scope, *context.variables);
  GLINT_TRY_STATUS(enter(loop.else_scope, *context.variables));
  return run_body(loop.otherwise, context);
}

Result<bool> Interpreter::test_item(const ForLoop& loop, const ActivationPtr& closure,
                                    const Value& item) {
  const Runtime::Nesting nesting(runtime_, kCallLevels);
  GLINT_TRY_STATUS(nesting.check());
  const auto activation = std::make_shared<Activation>(runtime_, loop.test_routine, closure);
  std::string unused;
  const Context context{activation, unused};
  GLINT_TRY_STATUS(enter(loop.test_routine.scope, *activation));
  GLINT_TRY_STATUS(assign(*loop.test_target, item, context));
  GLINT_TRY(const Value passes, eval(*loop.test, context));
  return truthy(passes);
}

Result<Interpreter::Flow> Interpreter::run_set_block(const Stmt& statement,
                                                     const Context& context) {
  const ScopeGuard guard(statement.scope, *context.variables);
  GLINT_TRY_STATUS(enter(statement.scope, *context.variables));
  std::string out;
  GLINT_TRY(const Flow flow, run_body(statement.body, Context{context.variables, out}));
  if (flow != Flow::kNext) return flow;
  GLINT_TRY(Value value, runtime_.make_string(std::move(out)));
  if (statement.value) {
    const Value block = value;
    GLINT_TRY(value, eval(*statement.value, Context{context.variables, context.out, &block}));
  }
  GLINT_TRY_STATUS(assign(*statement.target, std::move(value), context));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::run_filter_block(const Stmt& statement,
                                                        const Context& context) {
  const ScopeGuard guard(statement.scope, *context.variables);
  GLINT_TRY_STATUS(enter(statement.scope, *context.variables));
  std::string out;
  GLINT_TRY(const Flow flow, run_body(statement.body, Context{context.variables, out}));
  if (flow != Flow::kNext) return flow;
  GLINT_TRY(const Value block, runtime_.make_string(std::move(out)));
  GLINT_TRY(const Value value,
            eval(*statement.value, Context{context.variables, context.out, &block}));
  // jinja2 joins what the filter gives as it is, and only texts can be joined.
  if (!value.is_string())
    return invalid("sequence item: expected str instance, " + value.type_name() + " found");
  GLINT_TRY_STATUS(append(value, context));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::run_with(const Stmt& statement, const Context& context) {
  const ScopeGuard guard(statement.scope, *context.variables);
  GLINT_TRY_STATUS(enter(statement.scope, *context.variables));
  for (std::size_t i = 0; i < statement.targets.size(); ++i) {
    GLINT_TRY(Value value, eval(*statement.expressions[i], context));
    GLINT_TRY_STATUS(assign(*statement.targets[i], std::move(value), context));
  }
  return run_body(statement.body, context);
}

Value Interpreter::make_macro(const MacroDefinition& macro, const ActivationPtr& closure) {
  return Value(std::shared_ptr<Object>(std::make_shared<MacroObject>(*this, macro, closure)));
}

Status Interpreter::run_call_block(const Stmt& statement, const Context& context) {
  const Value caller = make_macro(*statement.macro, context.variables);
  GLINT_TRY(const Value value, eval_call(*statement.value, context, &caller));
  return append(value, context);
}

Status Interpreter::assign(const Expr& target, Value value, const Context& context) {
  if (target.kind == Expr::Kind::kName) {
    slot_of(context.variables, target.slot) = std::move(value);
    return Ok{};
  }
  if (target.kind == Expr::Kind::kNamespaceTarget) {
    const std::optional<Value>& slot = slot_of(context.variables, target.slot);
    Namespace* space = slot ? slot->object_as<Namespace>() : nullptr;
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
    GLINT_TRY_STATUS(assign(*target.parts[i], items[i], context));
  return Ok{};
}

namespace {

// Takes the argument `name` out of `named`, if it is there.
std::optional<Value> take_named(std::vector<std::pair<std::string, Value>>& named,
                                const std::string& name) {
  const auto at = std::find_if(named.begin(), named.end(),
                               [&](const auto& entry) { return entry.first == name; });
  if (at == named.end()) return {};
  std::optional<Value> value = std::move(at->second);
  named.erase(at);
  return value;
}

Error unexpected_named(const MacroDefinition& macro,
                       const std::vector<std::pair<std::string, Value>>& named) {
  for (const auto& [name, value] : named) {
    if (name != "caller") continue;
    return invalid(str("macro '", macro.name,
                       "' was invoked with two values for the special caller argument. This is "
                       "most likely a bug."));
  }
  return invalid(str("macro '", macro.name, "' takes no keyword argument '", named[0].first, "'"));
}

}  // namespace

Result<Value> Interpreter::call_macro(const MacroDefinition& macro, const ActivationPtr& closure,
                                      const Arguments& arguments) {
  const Runtime::Nesting nesting(runtime_, kCallLevels);
  GLINT_TRY_STATUS(nesting.check());
  const auto activation = std::make_shared<Activation>(runtime_, macro.routine, closure);
  const auto slot = [&](int place) -> std::optional<Value>& {
    return activation->slots[static_cast<std::size_t>(place)];
  };
  std::vector<std::pair<std::string, Value>> named = arguments.named;
  const std::size_t count = macro.parameters.size();
  const std::size_t given = std::min(count, arguments.positional.size());
  GLINT_TRY_STATUS(enter(macro.routine.scope, *activation));
  GLINT_TRY_STATUS(runtime_.budget.spend_steps(count * named.size() / 8));
  for (std::size_t i = 0; i < count; ++i) {
    slot(macro.parameter_slots[i]) = i < given ? std::optional<Value>(arguments.positional[i])
                                               : take_named(named, macro.parameters[i]);
  }
  if (macro.caller_slot >= 0) {
    std::optional<Value> caller = take_named(named, "caller");
    const bool none = !caller || caller->is_none();
    slot(macro.caller_slot) = none ? Value(Undefined{.hint = "No caller defined"}) : *caller;
  }
  if (macro.kwargs_slot >= 0) {
    Dict rest;
    for (const auto& [name, value] : named) rest.set(name, name, value);
    GLINT_TRY(slot(macro.kwargs_slot), runtime_.make_dict(std::move(rest)));
  } else if (!named.empty()) {
    return unexpected_named(macro, named);
  }
  if (macro.varargs_slot >= 0) {
    std::vector<Value> rest(arguments.positional.begin() + static_cast<std::ptrdiff_t>(given),
                            arguments.positional.end());
    GLINT_TRY(slot(macro.varargs_slot), runtime_.make_tuple(std::move(rest)));
  } else if (arguments.positional.size() > count) {
    return invalid(str("macro '", macro.name, "' takes not more than ", count, " argument(s)"));
  }
  std::string out;
  const Context context{activation, out};
  for (std::size_t i = 0; i < count; ++i) {
    std::optional<Value>& parameter = slot(macro.parameter_slots[i]);
    if (parameter) continue;
    const std::size_t from_end = count - i;
    if (from_end <= macro.defaults.size()) {
      GLINT_TRY(parameter, eval(*macro.defaults[macro.defaults.size() - from_end], context));
    } else {
      parameter =
          Value(Undefined{.hint = "parameter '" + macro.parameters[i] + "' was not provided"});
    }
  }
  GLINT_TRY_STATUS(run_body(macro.body, context));
  return runtime_.make_string(std::move(out));
}

}  // namespace glint::jinja
