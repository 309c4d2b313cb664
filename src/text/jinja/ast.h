// The syntax tree of a template. The parser builds it; the resolver fills in where variables live;
// the interpreter only reads it, so that one tree can be rendered by many threads.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/lexer.h"
#include "text/jinja/operations.h"

namespace glint::jinja {

// A variable: slot `slot` of the function `hops` function bodies further out (0: the current one).
struct SlotRef {
  int hops = 0;
  int slot = -1;
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star, double_star;  // *list, **dict
};

struct Expr {
  enum class Kind {
    kConstant,   // constant
    kName,       // name, slot
    kTuple,      // parts
    kList,       // parts
    kDict,       // parts: key, value, key, value ...
    kAttribute,  // parts[0].name
    kItem,       // parts[0][parts[1]]
    kSlice,      // parts[0][parts[1]:parts[2]:parts[3]], the last three may be null
    kCall,       // parts[0](arguments)
    kFilter,     // parts[0] | name(arguments); parts[0] is null if the input is the body of a block
    kTest,       // parts[0] is name(arguments)
    kNegate,     // -parts[0]
    kPositive,   // +parts[0]
    kNot,        // not parts[0]
    kAnd,        // parts[0] and parts[1]
    kOr,         // parts[0] or parts[1]
    kArithmetic,       // parts[0] operation parts[1]
    kConcat,           // parts joined by ~
    kCompare,          // parts[0] comparisons[0] parts[1] comparisons[1] parts[2] ...
    kConditional,      // parts[1] if parts[0] else parts[2], which may be null
    kNamespaceTarget,  // name.attribute, on the left of an assignment; name's slot
  };

  Kind kind;
  Position position;
  int depth = 1;  // of the tree below
  std::vector<ExprPtr> parts = {};
  Value constant = {};
  std::string name = {};
  std::string attribute = {};
  SlotRef slot = {};
  CallArguments arguments = {};
  Operator operation = {};
  std::vector<Comparison> comparisons = {};
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

// What a scope does with its variables when it is entered.
struct Load {
  enum Action {
    kResolve,    // take the render variable (or global) `name`
    kAlias,      // copy the variable `from` of a scope further out
    kUndefined,  // nothing: the name is assigned before it is read
    kParameter,  // nothing: whoever enters the scope has set it
  };
  Action action;
  std::string name = {};
  SlotRef from = {};
  int slot = -1;
};

struct Scope {
  std::vector<Load> loads;
};

// A body that runs with variables of its own: a macro, a call block, a recursive loop, a loop's
// filter, the template.
struct Routine {
  int num_slots = 0;
  Scope scope;
};

struct MacroDefinition {
  std::string name;  // empty: of a call block
  std::vector<std::string> parameters;
  std::vector<ExprPtr> defaults;  // of the last parameters
  std::vector<int> parameter_slots = {};
  // Slots of the special variables, -1 where the body does not use them.
  int caller_slot = -1, kwargs_slot = -1, varargs_slot = -1;
  bool explicit_caller = false;  // caller is among the parameters
  Routine routine = {};
  Body body;
};

struct ForLoop {
  ExprPtr target, iterable, test;  // test may be null
  bool recursive = false;
  Body body, otherwise;
  // From the resolver:
  bool uses_loop = false;
  int loop_slot = -1;
  Scope body_scope = {}, else_scope = {};
  Routine routine = {};  // if recursive: body and otherwise run in it
  Routine test_routine = {};
  ExprPtr test_target = {};  // the target as the test sees it
};

struct Stmt {
  enum class Kind {
    kData,         // text
    kOutput,       // expressions
    kSet,          // target = value
    kSetBlock,     // target = body, through value (a filter) if there is one
    kFor,          // loop
    kIf,           // branches; the last may have no test
    kMacro,        // macro, stored in slot
    kCallBlock,    // value(..., caller=macro)
    kGeneration,   // macro, run at once
    kFilterBlock,  // body, through value
    kWith,         // targets = expressions, then body
    kBreak,
    kContinue,
  };
  struct Branch {
    ExprPtr test;
    Body body;
  };

  Kind kind;
  Position position;
  std::string text = {};
  ExprPtr target = {}, value = {};
  std::vector<ExprPtr> targets = {}, expressions = {};
  Body body = {};
  std::vector<Branch> branches = {};
  std::unique_ptr<ForLoop> loop = {};
  std::unique_ptr<MacroDefinition> macro = {};
  SlotRef slot = {};
  Scope scope = {};  // of body
};

struct TemplateTree {
  Routine routine;
  Body body;
};

// Text to tree, names still unresolved.
Result<TemplateTree> parse(std::string_view source);

// Gives every name its slot, with jinja2's scoping; finds assignments, calls and loop controls that
// jinja2 refuses when it compiles, and filters and tests that do not exist.
Status resolve(TemplateTree& tree);

}  // namespace glint::jinja
