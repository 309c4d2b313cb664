// Which variable a name means. jinja2 decides this before it renders, scope by scope, with rules of
// its own (a name that a scope assigns anywhere is the scope's own, copied from outside when it is
// entered); this is that algorithm.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"

namespace glint::jinja {

// A routine while its slots are handed out. One name at one level of scopes is one slot.
struct RoutineSlots {
  explicit RoutineSlots(Routine& routine, const RoutineSlots* parent)
      : routine(routine), parent(parent) {}

  Routine& routine;
  const RoutineSlots* parent;  // the routine around it
  std::map<std::pair<int, std::string>, int> slots;
};

class Symbols {
 public:
  Symbols(const Symbols* parent, RoutineSlots& routine)
      : parent_(parent), level_(parent ? parent->level_ + 1 : 0), routine_(&routine) {}

  // What a scope made of these nodes does with names; nested scopes are left out.
  void visit(const Body& body);
  void visit(const Stmt& statement);
  void visit(const Expr* expression);
  void visit_target(const Expr& target, bool as_parameter);

  void load(const std::string& name);
  void store(const std::string& name);
  int declare_parameter(const std::string& name);

  // Where `name` lives, seen from this scope. False if the scope does not know it.
  bool find(const std::string& name, SlotRef* ref) const;

  // What to do when the scope is entered.
  Scope scope() const;

  RoutineSlots& routine() const { return *routine_; }

 private:
  struct Variable {
    RoutineSlots* routine;
    int slot;
    bool operator<(const Variable& other) const {
      return std::pair(routine, slot) < std::pair(other.routine, other.slot);
    }
  };

  const Variable* find_own(const std::string& name) const;       // of this scope
  const Variable* find_variable(const std::string& name) const;  // of this or one around it
  bool is_stored(const std::string& name) const;
  Variable define(const std::string& name, Load load);
  Symbols branch() const;
  void visit_branches(const Stmt& statement, std::size_t first);
  void merge(const std::vector<Symbols>& branches);
  SlotRef ref_to(const Variable& variable) const;

  const Symbols* parent_;
  const Symbols* base_ = nullptr;  // of one way through an if: the scope as it was before the if
  int level_;
  RoutineSlots* routine_;
  std::map<std::string, Variable> variables_;
  std::map<Variable, Load> loads_;
  std::set<std::string> stores_;
};

// Which of `names` the nodes read without having assigned them: does a loop's body use `loop`, a
// macro's `caller`?
std::set<std::string> find_undeclared(const Body& body, std::set<std::string> names);

}  // namespace glint::jinja
