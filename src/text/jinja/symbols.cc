#include "text/jinja/symbols.h"

namespace glint::jinja {

void Symbols::visit(const Body& body) {
  for (const auto& statement : body) visit(*statement);
}

void Symbols::visit(const Stmt& statement) {
  switch (statement.kind) {
    case Stmt::Kind::kOutput:
    case Stmt::Kind::kWith:
      for (const ExprPtr& value : statement.expressions) visit(value.get());
      break;
    case Stmt::Kind::kSet:
      visit(statement.value.get());
      visit_target(*statement.target, false);
      break;
    case Stmt::Kind::kSetBlock:
      visit_target(*statement.target, false);
      break;
    case Stmt::Kind::kFor:
      visit(statement.loop->iterable.get());
      break;
    case Stmt::Kind::kIf:
      visit_branches(statement, 0);
      break;
    case Stmt::Kind::kMacro:
      store(statement.macro->name);
      break;
    case Stmt::Kind::kCallBlock:
    case Stmt::Kind::kFilterBlock:
      visit(statement.value.get());
      break;
    default:
      break;
  }
}

// jinja2's tree holds the elifs as a list of ifs, each with its own merge.
void Symbols::visit_branches(const Stmt& statement, std::size_t first) {
  const auto& branches = statement.branches;
  visit(branches[first].test.get());
  std::vector<Symbols> ways;
  ways.push_back(branch());
  ways.back().visit(branches[first].body);
  if (first == 0) {
    const bool has_else = branches.size() > 1 && !branches.back().test;
    ways.push_back(branch());
    for (std::size_t i = 1; i < branches.size() - has_else; ++i)
      ways.back().visit_branches(statement, i);
    if (has_else) {
      ways.push_back(branch());
      ways.back().visit(branches.back().body);
    }
  }
  merge(ways);
}

void Symbols::visit(const Expr* expression) {
  if (!expression) return;
  if (expression->kind == Expr::Kind::kName) load(expression->name);
  for (const ExprPtr& part : expression->parts) visit(part.get());
  const CallArguments& arguments = expression->arguments;
  for (const ExprPtr& value : arguments.positional) visit(value.get());
  for (const auto& [name, value] : arguments.named) visit(value.get());
  visit(arguments.star.get());
  visit(arguments.double_star.get());
}

void Symbols::visit_target(const Expr& target, bool as_parameter) {
  if (target.kind == Expr::Kind::kTuple) {
    for (const ExprPtr& part : target.parts) visit_target(*part, as_parameter);
  } else if (target.kind == Expr::Kind::kNamespaceTarget) {
    load(target.name);
  } else if (as_parameter) {
    declare_parameter(target.name);
  } else {
    store(target.name);
  }
}

const Symbols::Variable* Symbols::find_own(const std::string& name) const {
  for (const Symbols* way = this; way; way = way->base_) {
    const auto at = way->variables_.find(name);
    if (at != way->variables_.end()) return &at->second;
  }
  return nullptr;
}

const Symbols::Variable* Symbols::find_variable(const std::string& name) const {
  for (const Symbols* scope = this; scope; scope = scope->parent_) {
    if (const Variable* variable = scope->find_own(name)) return variable;
  }
  return nullptr;
}

bool Symbols::is_stored(const std::string& name) const {
  for (const Symbols* way = this; way; way = way->base_) {
    if (way->stores_.count(name)) return true;
  }
  return false;
}

Symbols::Variable Symbols::define(const std::string& name, Load load) {
  const auto [at, is_new] =
      routine_->slots.emplace(std::pair(level_, name), routine_->routine.num_slots);
  if (is_new) ++routine_->routine.num_slots;
  const Variable variable = {routine_, at->second};
  load.slot = variable.slot;
  variables_[name] = variable;
  loads_[variable] = std::move(load);
  return variable;
}

SlotRef Symbols::ref_to(const Variable& variable) const {
  int hops = 0;
  for (const RoutineSlots* routine = routine_; routine != variable.routine;
       routine = routine->parent)
    ++hops;
  return {hops, variable.slot};
}

void Symbols::load(const std::string& name) {
  if (!find_variable(name)) define(name, {.action = Load::kResolve, .name = name});
}

void Symbols::store(const std::string& name) {
  stores_.insert(name);
  if (find_own(name)) return;
  const Variable* outer = parent_ ? parent_->find_variable(name) : nullptr;
  if (outer) {
    define(name, {.action = Load::kAlias, .from = ref_to(*outer)});
  } else {
    define(name, {.action = Load::kUndefined});
  }
}

int Symbols::declare_parameter(const std::string& name) {
  stores_.insert(name);
  return define(name, {.action = Load::kParameter}).slot;
}

Symbols Symbols::branch() const {
  Symbols way(parent_, *routine_);
  way.level_ = level_;
  way.base_ = this;
  return way;
}

void Symbols::merge(const std::vector<Symbols>& branches) {
  std::set<std::string> stores;
  for (const Symbols& branch : branches) {
    for (const std::string& name : branch.stores_) {
      if (!is_stored(name)) stores.insert(name);
    }
  }
  for (const Symbols& branch : branches) {
    for (const auto& [name, variable] : branch.variables_) variables_[name] = variable;
    for (const auto& [variable, load] : branch.loads_) loads_[variable] = load;
    stores_.insert(branch.stores_.begin(), branch.stores_.end());
  }
  // Assigned in one branch only: behind the branches it may still be what it was outside.
  for (const std::string& name : stores) {
    const Variable variable = *find_variable(name);
    const Variable* outer = parent_ ? parent_->find_variable(name) : nullptr;
    Load load = outer ? Load{.action = Load::kAlias, .from = ref_to(*outer)}
                      : Load{.action = Load::kResolve, .name = name};
    load.slot = variable.slot;
    loads_[variable] = std::move(load);
  }
}

bool Symbols::find(const std::string& name, SlotRef* ref) const {
  const Variable* variable = find_variable(name);
  if (variable) *ref = ref_to(*variable);
  return variable != nullptr;
}

Scope Symbols::scope() const {
  Scope scope;
  for (const auto& [variable, load] : loads_) scope.loads.push_back(load);
  return scope;
}

namespace {

// Walks all nodes in jinja2's order and notes names that are read before they are assigned.
class UndeclaredNames {
 public:
  explicit UndeclaredNames(std::set<std::string> names) : names_(std::move(names)) {}

  void walk(const Body& body) {
    for (const auto& statement : body) walk(*statement);
  }

  std::set<std::string> found;

 private:
  void walk(const Stmt& statement) {
    if (statement.target) walk_target(*statement.target);
    for (const ExprPtr& target : statement.targets) walk_target(*target);
    walk(statement.value.get());
    for (const ExprPtr& value : statement.expressions) walk(value.get());
    walk(statement.body);
    for (const Stmt::Branch& branch : statement.branches) {
      walk(branch.test.get());
      walk(branch.body);
    }
    if (const ForLoop* loop = statement.loop.get()) {
      walk_target(*loop->target);
      walk(loop->iterable.get());
      walk(loop->body);
      walk(loop->otherwise);
      walk(loop->test.get());
    }
    if (const MacroDefinition* macro = statement.macro.get()) {
      for (const std::string& name : macro->parameters) names_.erase(name);
      for (const ExprPtr& value : macro->defaults) walk(value.get());
      walk(macro->body);
    }
  }

  void walk(const Expr* expression) {
    if (!expression) return;
    if (expression->kind == Expr::Kind::kName && names_.count(expression->name))
      found.insert(expression->name);
    for (const ExprPtr& part : expression->parts) walk(part.get());
    for (const ExprPtr& value : expression->arguments.positional) walk(value.get());
    for (const auto& [name, value] : expression->arguments.named) walk(value.get());
    walk(expression->arguments.star.get());
    walk(expression->arguments.double_star.get());
  }

  void walk_target(const Expr& target) {
    if (target.kind == Expr::Kind::kName) names_.erase(target.name);
    for (const ExprPtr& part : target.parts) walk_target(*part);
  }

  std::set<std::string> names_;
};

}  // namespace

std::set<std::string> find_undeclared(const Body& body, std::set<std::string> names) {
  UndeclaredNames walker(std::move(names));
  walker.walk(body);
  return std::move(walker.found);
}

}  // namespace glint::jinja
