// Runs a template's tree. One Interpreter is one rendering; the tree is only read.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "text/template/jinja/ast.h"
#include "text/template/jinja/runtime.h"

namespace glint::jinja {

// The variables of one run of the template, a macro, a loop's body or a block. A name is looked for
// in the scope, then in those around it.
class Scope {
 public:
  explicit Scope(const Scope* outer) : outer_(outer) {}

  const Value* find(std::string_view name) const {
    for (const Scope* scope = this; scope; scope = scope->outer_) {
      const auto at = scope->values_.find(name);
      if (at != scope->values_.end()) return &at->second;
    }
    return nullptr;
  }
  void set(const std::string& name, Value value) { values_[name] = std::move(value); }

 private:
  const Scope* outer_;
  std::map<std::string, Value, std::less<>> values_;
};

class Interpreter {
 public:
  // `variables` are the template's own names; global functions come after them.
  Interpreter(Runtime& runtime, const Dict& variables);

  Result<std::string> run(const TemplateTree& tree);
  Result<Value> call_macro(const MacroDefinition& macro, const Arguments& arguments);

 private:
  enum class Flow { kNext, kBreak, kContinue };

  // interpreter.cc: statements, which write to `out`
  Result<Flow> run_body(const Body& body, Scope& scope, std::string& out);
  Result<Flow> run_statement(const Stmt& statement, Scope& scope, std::string& out);
  Result<Flow> run_if(const Stmt& statement, Scope& scope, std::string& out);
  Result<Flow> run_for(const Stmt& statement, Scope& scope, std::string& out);
  Result<Flow> run_set_block(const Stmt& statement, Scope& scope);
  Result<Flow> run_with(const Stmt& statement, Scope& scope, std::string& out);
  Status bind_parameters(const MacroDefinition& macro, const Arguments& arguments, Scope& scope);
  Status append(const std::string& text, std::string& out);
  Status assign(const Expr& target, Value value, Scope& scope);

  // evaluator.cc: expressions
  Result<Value> eval(const Expr& expression, const Scope& scope);
  Result<Value> eval_node(const Expr& expression, const Scope& scope);
  Result<std::vector<Value>> eval_all(const std::vector<ExprPtr>& expressions, const Scope& scope);
  Result<Value> eval_name(const std::string& name, const Scope& scope);
  Result<Value> eval_dict(const Expr& expression, const Scope& scope);
  Result<Value> eval_slice(const Expr& expression, const Scope& scope);
  Result<Value> eval_call(const Expr& expression, const Scope& scope);
  Result<Value> eval_filter(const Expr& expression, const Scope& scope);
  Result<Value> eval_test(const Expr& expression, const Scope& scope);
  Result<Value> eval_concat(const Expr& expression, const Scope& scope);
  Result<Value> eval_compare(const Expr& expression, const Scope& scope);
  Result<Value> eval_conditional(const Expr& expression, const Scope& scope);
  Result<Arguments> eval_arguments(const CallArguments& arguments, const Scope& scope);

  // The error with a position, unless an inner one has given it one.
  Error locate(Position position, Error error);

  Runtime& runtime_;
  Scope variables_;
  Scope top_;  // of the template: macros see it
  bool is_located_ = false;
};

}  // namespace glint::jinja
