// The syntax tree of a template. The parser builds it; the interpreter only reads it, so that one
// tree can be rendered by many threads.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template/jinja/lexer.h"
#include "text/template/jinja/operations.h"

namespace glint::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
};

struct Expr {
  enum class Kind {
    kConstant,         // constant
    kName,             // name
    kTuple,            // parts
    kList,             // parts
    kDict,             // parts: key, value, key, value ...
    kAttribute,        // parts[0].name
    kItem,             // parts[0][parts[1]]
    kSlice,            // parts[0][parts[1]:parts[2]:parts[3]], the last three may be null
    kCall,             // parts[0](arguments)
    kFilter,           // parts[0] | name(arguments)
    kTest,             // parts[0] is name(arguments)
    kNegate,           // -parts[0]
    kPositive,         // +parts[0]
    kNot,              // not parts[0]
    kAnd,              // parts[0] and parts[1]
    kOr,               // parts[0] or parts[1]
    kArithmetic,       // parts[0] operation parts[1]
    kConcat,           // parts joined by ~
    kCompare,          // parts[0] comparisons[0] parts[1] comparisons[1] parts[2] ...
    kConditional,      // parts[1] if parts[0] else parts[2], which may be null
    kNamespaceTarget,  // name.attribute, on the left of an assignment
  };

  Kind kind;
  Position position;
  int depth = 1;  // of the tree below
  std::vector<ExprPtr> parts = {};
  Value constant = {};
  std::string name = {};
  std::string attribute = {};
  CallArguments arguments = {};
  Operator operation = {};
  std::vector<Comparison> comparisons = {};
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

struct MacroDefinition {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExprPtr> defaults;  // of the last parameters
  Body body;
};

struct Stmt {
  enum class Kind {
    kData,        // text
    kOutput,      // value
    kSet,         // target = value
    kSetBlock,    // target = body
    kFor,         // for target in value if test: body, otherwise
    kIf,          // branches; the last may have no test
    kMacro,       // macro
    kGeneration,  // body
    kWith,        // assignments, then body
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
  ExprPtr target = {}, value = {}, test = {};
  Body body = {}, otherwise = {};
  std::vector<Branch> branches = {};
  std::vector<std::pair<ExprPtr, ExprPtr>> assignments = {};  // target, value
  std::unique_ptr<MacroDefinition> macro = {};
};

struct TemplateTree {
  Body body;
  // Set by the template itself before it reads them, and in no if: from its start to then they are
  // undefined, whatever the caller gave. Loops, blocks and macros before them can tell.
  std::vector<std::string> own_names;
};

Result<TemplateTree> parse(std::string_view source);

}  // namespace glint::jinja
