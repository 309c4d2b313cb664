// Runs a template's tree. One Interpreter is one rendering; the tree is only read.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/object.h"

namespace glint::jinja {

// The variables of one run of a routine. Closures share it.
struct Activation {
  Activation(Runtime& runtime, const Routine& routine, std::shared_ptr<Activation> parent)
      : runtime(runtime),
        parent(std::move(parent)),
        slots(static_cast<std::size_t>(routine.num_slots)) {}
  ~Activation() { runtime.bury(std::move(slots)); }
  Activation(const Activation&) = delete;
  Activation& operator=(const Activation&) = delete;

  Runtime& runtime;
  std::shared_ptr<Activation> parent;  // of the routine around it
  std::vector<std::optional<Value>> slots;
};

class Interpreter {
 public:
  // `variables` are what the template sees by name, before the global functions.
  Interpreter(Runtime& runtime, const Dict& variables) : runtime_(runtime), variables_(variables) {}
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  Result<std::string> run(const TemplateTree& tree);

  // What macros and recursive loops call back.
  Result<Value> call_macro(const MacroDefinition& macro, const std::shared_ptr<Activation>& closure,
                           const Arguments& arguments);
  Result<Value> run_recursive_loop(const ForLoop& loop, const std::shared_ptr<Activation>& closure,
                                   const Value& iterable, int depth);
  // Does the test of `loop` hold for `item`?
  Result<bool> test_item(const ForLoop& loop, const std::shared_ptr<Activation>& closure,
                         const Value& item);

  Runtime& runtime() { return runtime_; }

 private:
  enum class Flow { kNext, kBreak, kContinue };
  using ActivationPtr = std::shared_ptr<Activation>;

  // Where a statement or expression runs.
  struct Context {
    const ActivationPtr& variables;
    std::string& out;
    const Value* block = nullptr;  // the text of the block that a filter without input works on
  };

  // Forgets a scope's variables, which enter() loads, at its end.
  class ScopeGuard {
   public:
    ScopeGuard(const Scope& scope, Activation& activation)
        : scope_(scope), activation_(activation) {}
    ~ScopeGuard();
    ScopeGuard(const ScopeGuard&) = delete;
    ScopeGuard& operator=(const ScopeGuard&) = delete;

   private:
    const Scope& scope_;
    Activation& activation_;
  };
  Status enter(const Scope& scope, Activation& activation);

  // interpreter.cc: statements
  Result<Flow> run_body(const Body& body, const Context& context);
  Result<Flow> run_statement(const Stmt& statement, const Context& context);
  Status run_output(const Stmt& statement, const Context& context);
  Result<Flow> run_if(const Stmt& statement, const Context& context);
  Result<Flow> run_for(const Stmt& statement, const Context& context);
  Result<Flow> run_loop(const ForLoop& loop, const Value& iterable, int depth,
                        const Context& context, const ActivationPtr& outer);
  Result<Flow> run_set_block(const Stmt& statement, const Context& context);
  Result<Flow> run_filter_block(const Stmt& statement, const Context& context);
  Result<Flow> run_with(const Stmt& statement, const Context& context);
  Status run_call_block(const Stmt& statement, const Context& context);
  Status append(const std::string& text, const Context& context);
  Status append(const Value& value, const Context& context);
  Status assign(const Expr& target, Value value, const Context& context);
  Value make_macro(const MacroDefinition& macro, const ActivationPtr& closure);

  // evaluator.cc: expressions
  Result<Value> eval(const Expr& expression, const Context& context);
  Result<Value> eval_node(const Expr& expression, const Context& context);
  Result<std::vector<Value>> eval_all(const std::vector<ExprPtr>& expressions,
                                      const Context& context);
  Result<Value> eval_dict(const Expr& expression, const Context& context);
  Result<Value> eval_slice(const Expr& expression, const Context& context);
  Result<Value> eval_call(const Expr& expression, const Context& context, const Value* caller);
  Result<Value> eval_filter(const Expr& expression, const Context& context);
  Result<Value> eval_test(const Expr& expression, const Context& context);
  Result<Value> eval_concat(const Expr& expression, const Context& context);
  Result<Value> eval_compare(const Expr& expression, const Context& context);
  Result<Value> eval_conditional(const Expr& expression, const Context& context);
  Result<Arguments> eval_arguments(const CallArguments& arguments, const Context& context);
  Result<Value> load(const Expr& name, const Context& context);
  static std::optional<Value>& slot_of(const ActivationPtr& activation, SlotRef ref);

  // The error with a position, unless an inner one has given it one.
  Error locate(Position position, Error error);

  Runtime& runtime_;
  const Dict& variables_;
  // Activations that hold a macro which holds them.
  std::vector<ActivationPtr> cyclic_;
  bool is_located_ = false;
};

}  // namespace glint::jinja
