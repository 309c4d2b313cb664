// Between parsing and running: which variable each name means, and what can be refused beforehand.
#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/symbols.h"

namespace glint::jinja {
namespace {

// Where a node stands.
struct Place {
  Symbols& symbols;
  bool in_loop = false;  // break and continue have a loop of the same routine
  // Within an if, an unknown filter fails when it is run and not before.
  bool soft = false;
};

class Resolver {
 public:
  Status resolve_template(TemplateTree& tree) {
    RoutineSlots routine(tree.routine, nullptr);
    Symbols symbols(nullptr, routine);
    symbols.visit(tree.body);
    GLINT_TRY_STATUS(resolve_body(tree.body, Place{symbols}));
    tree.routine.scope = symbols.scope();
    return Ok{};
  }

 private:
  Status resolve_body(Body& body, const Place& place) {
    for (const auto& statement : body) GLINT_TRY_STATUS(resolve_statement(*statement, place));
    return Ok{};
  }

  Status resolve_statement(Stmt& statement, const Place& place) {
    switch (statement.kind) {
      case Stmt::Kind::kData:
        return Ok{};
      case Stmt::Kind::kOutput:
        return resolve_all(statement.expressions, place);
      case Stmt::Kind::kSet:
        GLINT_TRY_STATUS(resolve_target(*statement.target, place));
        return resolve_expr(statement.value.get(), place);
      case Stmt::Kind::kSetBlock:
        return resolve_set_block(statement, place);
      case Stmt::Kind::kFor:
        return resolve_for(statement, place);
      case Stmt::Kind::kIf:
        return resolve_if(statement, place);
      case Stmt::Kind::kMacro:
        place.symbols.find(statement.macro->name, &statement.slot);
        return resolve_macro(statement, place);
      case Stmt::Kind::kCallBlock:
        GLINT_TRY_STATUS(resolve_macro(statement, place));
        return resolve_expr(statement.value.get(), place);
      case Stmt::Kind::kGeneration:
        return resolve_macro(statement, place);
      case Stmt::Kind::kFilterBlock:
        return resolve_filter_block(statement, place);
      case Stmt::Kind::kWith:
        return resolve_with(statement, place);
      case Stmt::Kind::kBreak:
      case Stmt::Kind::kContinue:
        if (place.in_loop) return Ok{};
        return at(statement.position, invalid(statement.kind == Stmt::Kind::kBreak
                                                  ? "'break' outside loop"
                                                  : "'continue' not properly in loop"));
    }
    return Ok{};
  }

  Status resolve_if(Stmt& statement, const Place& place) {
    const Place inside = {place.symbols, place.in_loop, true};
    for (Stmt::Branch& branch : statement.branches) {
      GLINT_TRY_STATUS(resolve_expr(branch.test.get(), inside));
      GLINT_TRY_STATUS(resolve_body(branch.body, inside));
    }
    return Ok{};
  }

  Status resolve_set_block(Stmt& statement, const Place& place) {
    Symbols symbols(&place.symbols, place.symbols.routine());
    symbols.visit(statement.body);
    const Place inside = {symbols, place.in_loop};
    GLINT_TRY_STATUS(resolve_body(statement.body, inside));
    GLINT_TRY_STATUS(resolve_target(*statement.target, place));
    GLINT_TRY_STATUS(resolve_expr(statement.value.get(), inside));
    statement.scope = symbols.scope();
    return Ok{};
  }

  Status resolve_filter_block(Stmt& statement, const Place& place) {
    Symbols symbols(&place.symbols, place.symbols.routine());
    symbols.visit(statement.body);
    symbols.visit(statement.value.get());
    const Place inside = {symbols, place.in_loop};
    GLINT_TRY_STATUS(resolve_body(statement.body, inside));
    GLINT_TRY_STATUS(resolve_expr(statement.value.get(), inside));
    statement.scope = symbols.scope();
    return Ok{};
  }

  Status resolve_with(Stmt& statement, const Place& place) {
    Symbols symbols(&place.symbols, place.symbols.routine());
    for (const ExprPtr& target : statement.targets) symbols.visit_target(*target, true);
    symbols.visit(statement.body);
    const Place inside = {symbols, place.in_loop};
    for (const ExprPtr& target : statement.targets)
      GLINT_TRY_STATUS(resolve_target(*target, inside, true));
    GLINT_TRY_STATUS(resolve_all(statement.expressions, place));
    GLINT_TRY_STATUS(resolve_body(statement.body, inside));
    statement.scope = symbols.scope();
    return Ok{};
  }

  Status resolve_for(Stmt& statement, const Place& place) {
    ForLoop& loop = *statement.loop;
    ++loops_around_;
    RoutineSlots own_routine(loop.routine, &place.symbols.routine());
    RoutineSlots& routine = loop.recursive ? own_routine : place.symbols.routine();
    Symbols symbols(&place.symbols, routine), else_symbols(&place.symbols, routine);
    loop.uses_loop = loop.recursive || find_undeclared(loop.body, {"loop"}).count("loop") > 0;
    if (loop.uses_loop) loop.loop_slot = symbols.declare_parameter("loop");
    symbols.visit_target(*loop.target, true);
    symbols.visit(loop.body);
    else_symbols.visit(loop.otherwise);

    GLINT_TRY_STATUS(resolve_loop_test(loop, place));
    GLINT_TRY_STATUS(resolve_target(*loop.target, Place{symbols}));
    GLINT_TRY_STATUS(resolve_expr(loop.iterable.get(), place));
    GLINT_TRY_STATUS(resolve_body(loop.body, Place{symbols, true}));
    GLINT_TRY_STATUS(
        resolve_body(loop.otherwise, Place{else_symbols, place.in_loop && !loop.recursive}));
    loop.body_scope = symbols.scope();
    loop.else_scope = else_symbols.scope();
    --loops_around_;
    return Ok{};
  }

  // The test of a loop runs as a function of the item, in a scope beside the body's.
  Status resolve_loop_test(ForLoop& loop, const Place& place) {
    if (!loop.test) return Ok{};
    RoutineSlots routine(loop.test_routine, &place.symbols.routine());
    Symbols symbols(&place.symbols, routine);
    symbols.visit_target(*loop.target, true);
    symbols.visit(loop.test.get());
    loop.test_target = copy_target(*loop.target);
    GLINT_TRY_STATUS(resolve_target(*loop.test_target, Place{symbols}));
    GLINT_TRY_STATUS(resolve_expr(loop.test.get(), Place{symbols}));
    loop.test_routine.scope = symbols.scope();
    return Ok{};
  }

  static ExprPtr copy_target(const Expr& target) {
    auto copy = std::make_unique<Expr>(Expr{.kind = target.kind, .position = target.position});
    copy->name = target.name;
    for (const ExprPtr& part : target.parts) copy->parts.push_back(copy_target(*part));
    return copy;
  }

  Status resolve_macro(Stmt& statement, const Place& place) {
    MacroDefinition& macro = *statement.macro;
    RoutineSlots routine(macro.routine, &place.symbols.routine());
    Symbols symbols(&place.symbols, routine);
    for (const std::string& name : macro.parameters) symbols.declare_parameter(name);
    for (const ExprPtr& value : macro.defaults) symbols.visit(value.get());
    symbols.visit(macro.body);
    for (const std::string& name : macro.parameters)
      macro.parameter_slots.push_back(symbols.declare_parameter(name));

    const std::set<std::string> used = find_undeclared(macro.body, {"caller", "kwargs", "varargs"});
    const auto is_parameter = [&](const char* name) {
      return std::find(macro.parameters.begin(), macro.parameters.end(), name) !=
             macro.parameters.end();
    };
    if (used.count("caller")) {
      if (!macro.explicit_caller) {
        macro.caller_slot = symbols.declare_parameter("caller");
      } else if (!has_default(macro, "caller")) {
        return at(
            statement.position,
            invalid("When defining macros or call blocks the special \"caller\" argument must "
                    "be omitted or be given a default."));
      }
    }
    if (used.count("kwargs") && !is_parameter("kwargs"))
      macro.kwargs_slot = symbols.declare_parameter("kwargs");
    if (used.count("varargs") && !is_parameter("varargs"))
      macro.varargs_slot = symbols.declare_parameter("varargs");

    const Place inside{symbols};
    GLINT_TRY_STATUS(resolve_all(macro.defaults, inside));
    GLINT_TRY_STATUS(resolve_body(macro.body, inside));
    macro.routine.scope = symbols.scope();
    return Ok{};
  }

  static bool has_default(const MacroDefinition& macro, const char* name) {
    const auto place = std::find(macro.parameters.begin(), macro.parameters.end(), name);
    return static_cast<std::size_t>(macro.parameters.end() - place) <= macro.defaults.size();
  }

  Status resolve_target(Expr& target, const Place& place, bool is_parameter = false) {
    if (target.kind == Expr::Kind::kTuple) {
      for (const ExprPtr& part : target.parts)
        GLINT_TRY_STATUS(resolve_target(*part, place, is_parameter));
      return Ok{};
    }
    if (target.kind == Expr::Kind::kName && target.name == "loop" && loops_around_ > 0 &&
        !is_parameter) {
      return at(target.position,
                invalid("Can't assign to special loop variable in for-loop target"));
    }
    return resolve_name(target, place);
  }

  Status resolve_name(Expr& name, const Place& place) {
    if (place.symbols.find(name.name, &name.slot)) return Ok{};
    return at(name.position, invalid("'" + name.name +
                                     "' is not known to this scope: jinja2 cannot compile this"));
  }

  Status resolve_all(const std::vector<ExprPtr>& expressions, const Place& place) {
    for (const ExprPtr& expression : expressions)
      GLINT_TRY_STATUS(resolve_expr(expression.get(), place));
    return Ok{};
  }

  Status resolve_expr(Expr* expression, const Place& place) {
    if (!expression) return Ok{};
    Place inside = place;
    if (expression->kind == Expr::Kind::kName) GLINT_TRY_STATUS(resolve_name(*expression, place));
    if (expression->kind == Expr::Kind::kConditional) inside.soft = true;
    if (expression->kind == Expr::Kind::kFilter && !place.soft && !find_filter(expression->name)) {
      return at(expression->position, invalid("No filter named '" + expression->name + "'."));
    }
    if (expression->kind == Expr::Kind::kTest && !place.soft && !find_test(expression->name)) {
      return at(expression->position, invalid("No test named '" + expression->name + "'."));
    }
    GLINT_TRY_STATUS(resolve_all(expression->parts, inside));
    GLINT_TRY_STATUS(resolve_all(expression->arguments.positional, inside));
    for (const auto& [name, value] : expression->arguments.named)
      GLINT_TRY_STATUS(resolve_expr(value.get(), inside));
    GLINT_TRY_STATUS(resolve_expr(expression->arguments.star.get(), inside));
    return resolve_expr(expression->arguments.double_star.get(), inside);
  }

  int loops_around_ = 0;
};

}  // namespace

Status resolve(TemplateTree& tree) { return Resolver().resolve_template(tree); }

}  // namespace glint::jinja
