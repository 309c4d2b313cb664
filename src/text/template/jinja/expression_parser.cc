// The half of the parser that reads expressions.
#include <algorithm>

#include "base/str.h"
#include "text/template/jinja/builtins.h"
#include "text/template/jinja/parser.h"

namespace glint::jinja {
namespace {

// Evaluation and freeing recurse over the tree.
constexpr int kMaxDepth = 400;

template <class... Parts>
std::vector<ExprPtr> parts_of(Parts... parts) {
  std::vector<ExprPtr> list;
  (list.push_back(std::move(parts)), ...);
  return list;
}

}  // namespace

Token Parser::take() {
  Token token = tokens_[at_];
  if (token.kind != Token::kEnd) ++at_;
  return token;
}

bool Parser::skip_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  ++at_;
  return true;
}

bool Parser::skip_operator(std::string_view sign) {
  if (!current().is_operator(sign)) return false;
  ++at_;
  return true;
}

Status Parser::expect_name(std::string_view name) {
  if (skip_name(name)) return Ok{};
  return expect(Token::kEnd, name);
}

Status Parser::expect_operator(std::string_view sign) {
  if (skip_operator(sign)) return Ok{};
  return expect(Token::kEnd, sign);
}

Status Parser::expect(Token::Kind kind, std::string_view description) {
  if (current().kind == kind && kind != Token::kEnd) {
    ++at_;
    return Ok{};
  }
  if (current().kind == Token::kEnd)
    return fail(str("unexpected end of template, expected '", description, "'."));
  return fail(str("expected token '", description, "', got '", current().description(), "'"));
}

Result<std::string> Parser::expect_any_name() {
  std::string name = current().text;
  GLINT_TRY_STATUS(expect(Token::kName, "name"));
  return name;
}

Result<ExprPtr> Parser::make(Expr::Kind kind, Position position, std::vector<ExprPtr> parts) {
  auto node = std::make_unique<Expr>(Expr{.kind = kind, .position = position});
  for (const ExprPtr& part : parts) {
    if (part) node->depth = std::max(node->depth, part->depth + 1);
  }
  node->parts = std::move(parts);
  if (node->depth > kMaxDepth) {
    return at(position, invalid(str("an expression nests more than ", kMaxDepth, " deep")));
  }
  return node;
}

Result<ExprPtr> Parser::parse_tuple(const TupleStyle& style) {
  const NestingGuard guard(nesting_);
  if (guard.too_deep()) return fail("brackets nest too deep");
  const Position position = current().position;
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  for (;;) {
    if (!items.empty()) GLINT_TRY_STATUS(expect_operator(","));
    const Token& token = current();
    if (token.kind == Token::kVariableEnd || token.kind == Token::kBlockEnd ||
        token.is_operator(")")) {
      break;
    }
    GLINT_TRY(ExprPtr item,
              style.simple ? parse_primary(style.namespaces) : parse_expression(style.conditional));
    items.push_back(std::move(item));
    if (!current().is_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!items.empty()) return std::move(items[0]);
    if (!style.may_be_empty)
      return fail(str("Expected an expression, got '", current().description(), "'"));
  }
  return make(Expr::Kind::kTuple, position, std::move(items));
}

Result<ExprPtr> Parser::parse_target(const TupleStyle& style) {
  GLINT_TRY(ExprPtr target, parse_tuple(style));
  GLINT_TRY_STATUS(check_assignable(*target));
  return target;
}

Status Parser::check_assignable(const Expr& target) {
  switch (target.kind) {
    case Expr::Kind::kName:
    case Expr::Kind::kNamespaceTarget:
      return Ok{};
    case Expr::Kind::kTuple:
      for (const ExprPtr& item : target.parts) GLINT_TRY_STATUS(check_assignable(*item));
      return Ok{};
    default:
      return at(target.position, invalid("can't assign to this expression"));
  }
}

Result<ExprPtr> Parser::parse_expression(bool conditional) {
  const NestingGuard guard(nesting_);
  if (guard.too_deep()) return fail("the expression nests too deep");
  return conditional ? parse_conditional() : parse_or();
}

Result<ExprPtr> Parser::parse_conditional() {
  const NestingGuard guard(nesting_);
  if (guard.too_deep()) return fail("conditions nest too deep");
  Position position = current().position;
  const std::size_t num_refused = refused_.size();
  GLINT_TRY(ExprPtr node, parse_or());
  while (skip_name("if")) {
    GLINT_TRY(ExprPtr test, parse_or());
    ExprPtr otherwise;
    if (skip_name("else")) {
      GLINT_TRY(otherwise, parse_conditional());
    }
    GLINT_TRY(node, make(Expr::Kind::kConditional, position,
                         parts_of(std::move(test), std::move(node), std::move(otherwise))));
    position = current().position;
    forgive(num_refused);
  }
  return node;
}

Result<ExprPtr> Parser::parse_or() {
  GLINT_TRY(ExprPtr left, parse_and());
  for (;;) {
    const Position position = current().position;
    if (!skip_name("or")) return left;
    GLINT_TRY(ExprPtr right, parse_and());
    GLINT_TRY(left, make(Expr::Kind::kOr, position, parts_of(std::move(left), std::move(right))));
  }
}

Result<ExprPtr> Parser::parse_and() {
  GLINT_TRY(ExprPtr left, parse_not());
  for (;;) {
    const Position position = current().position;
    if (!skip_name("and")) return left;
    GLINT_TRY(ExprPtr right, parse_not());
    GLINT_TRY(left, make(Expr::Kind::kAnd, position, parts_of(std::move(left), std::move(right))));
  }
}

Result<ExprPtr> Parser::parse_not() {
  const Position position = current().position;
  if (!skip_name("not")) return parse_compare();
  const NestingGuard guard(nesting_);
  if (guard.too_deep()) return fail("\"not\" nests too deep");
  GLINT_TRY(ExprPtr operand, parse_not());
  return make(Expr::Kind::kNot, position, parts_of(std::move(operand)));
}

Result<ExprPtr> Parser::parse_compare() {
  static constexpr std::pair<std::string_view, Comparison> kSigns[] = {
      {"==", Comparison::kEq}, {"!=", Comparison::kNe}, {"<", Comparison::kLt},
      {"<=", Comparison::kLe}, {">", Comparison::kGt},  {">=", Comparison::kGe},
  };
  GLINT_TRY(ExprPtr first, parse_sum());
  const Position position = current().position;
  std::vector<ExprPtr> operands = parts_of(std::move(first));
  std::vector<Comparison> comparisons;
  for (;;) {
    const auto* sign = std::find_if(std::begin(kSigns), std::end(kSigns), [&](const auto& sign) {
      return current().is_operator(sign.first);
    });
    if (sign != std::end(kSigns)) {
      ++at_;
      comparisons.push_back(sign->second);
    } else if (skip_name("in")) {
      comparisons.push_back(Comparison::kIn);
    } else if (current().is_name("not") && ahead().is_name("in")) {
      at_ += 2;
      comparisons.push_back(Comparison::kNotIn);
    } else {
      break;
    }
    GLINT_TRY(ExprPtr operand, parse_sum());
    operands.push_back(std::move(operand));
  }
  if (comparisons.empty()) return std::move(operands[0]);
  GLINT_TRY(ExprPtr node, make(Expr::Kind::kCompare, position, std::move(operands)));
  node->comparisons = std::move(comparisons);
  return node;
}

Result<ExprPtr> Parser::parse_sum() {
  GLINT_TRY(ExprPtr left, parse_concat());
  for (;;) {
    const Position position = current().position;
    const bool is_plus = skip_operator("+");
    if (!is_plus && !skip_operator("-")) return left;
    GLINT_TRY(ExprPtr right, parse_concat());
    GLINT_TRY(left,
              make(Expr::Kind::kArithmetic, position, parts_of(std::move(left), std::move(right))));
    left->operation = is_plus ? Operator::kAdd : Operator::kSub;
  }
}

Result<ExprPtr> Parser::parse_concat() {
  GLINT_TRY(ExprPtr first, parse_product());
  const Position position = current().position;
  if (!current().is_operator("~")) return first;
  std::vector<ExprPtr> operands = parts_of(std::move(first));
  while (skip_operator("~")) {
    GLINT_TRY(ExprPtr operand, parse_product());
    operands.push_back(std::move(operand));
  }
  return make(Expr::Kind::kConcat, position, std::move(operands));
}

Result<ExprPtr> Parser::parse_product() {
  static constexpr std::pair<std::string_view, Operator> kSigns[] = {{"*", Operator::kMul},
                                                                     {"/", Operator::kDiv},
                                                                     {"//", Operator::kFloorDiv},
                                                                     {"%", Operator::kMod}};
  GLINT_TRY(ExprPtr left, parse_unary());
  for (;;) {
    const Position position = current().position;
    const auto* sign = std::find_if(std::begin(kSigns), std::end(kSigns), [&](const auto& sign) {
      return current().is_operator(sign.first);
    });
    if (current().is_operator("**")) return fail("the operator ** is not supported");
    if (sign == std::end(kSigns)) return left;
    ++at_;
    GLINT_TRY(ExprPtr right, parse_unary());
    GLINT_TRY(left,
              make(Expr::Kind::kArithmetic, position, parts_of(std::move(left), std::move(right))));
    left->operation = sign->second;
  }
}

Result<ExprPtr> Parser::parse_unary(bool with_filters) {
  const NestingGuard guard(nesting_);
  if (guard.too_deep()) return fail("signs nest too deep");
  const Position position = current().position;
  ExprPtr node;
  const bool is_minus = skip_operator("-");
  if (is_minus || skip_operator("+")) {
    GLINT_TRY(ExprPtr operand, parse_unary(false));
    GLINT_TRY(node, make(is_minus ? Expr::Kind::kNegate : Expr::Kind::kPositive, position,
                         parts_of(std::move(operand))));
  } else {
    GLINT_TRY(node, parse_primary());
  }
  GLINT_TRY(node, parse_postfix(std::move(node)));
  if (with_filters) {
    GLINT_TRY(node, parse_filters_and_tests(std::move(node)));
  }
  return node;
}

Result<ExprPtr> Parser::parse_primary(bool namespaces) {
  const Position position = current().position;
  if (current().kind == Token::kName) return parse_name(namespaces);
  if (current().kind == Token::kString || current().kind == Token::kNumber) {
    GLINT_TRY(ExprPtr node, make(Expr::Kind::kConstant, position));
    if (current().kind == Token::kNumber) {
      node->constant = take().number;
    } else {
      std::string text;
      while (current().kind == Token::kString) text += take().text;
      node->constant = Value(std::move(text));
    }
    return node;
  }
  if (skip_operator("(")) {
    GLINT_TRY(ExprPtr node, parse_tuple({.may_be_empty = true}));
    GLINT_TRY_STATUS(expect_operator(")"));
    return node;
  }
  if (current().is_operator("[")) return parse_list();
  if (current().is_operator("{")) return parse_dict();
  return fail(str("unexpected '", current().description(), "'"));
}

Result<ExprPtr> Parser::parse_name(bool namespaces) {
  const Token token = take();
  const std::string& name = token.text;
  const bool is_true = name == "true" || name == "True",
             is_false = name == "false" || name == "False";
  if (is_true || is_false || name == "none" || name == "None") {
    GLINT_TRY(ExprPtr node, make(Expr::Kind::kConstant, token.position));
    if (is_true || is_false) node->constant = Value(is_true);
    return node;
  }
  const bool is_macro = used_names_.contains(name);
  if (current().is_operator("(") && lacks_function(name) && !is_macro)
    return at(token.position, unsupported_function(name));
  const bool is_attribute = namespaces && skip_operator(".");
  GLINT_TRY(ExprPtr node,
            make(is_attribute ? Expr::Kind::kNamespaceTarget : Expr::Kind::kName, token.position));
  node->name = name;
  if ((!namespaces || is_attribute) && num_scopes_ == 0) used_names_.insert(name);
  if (is_attribute) {
    GLINT_TRY(node->attribute, expect_any_name());
  }
  return node;
}

Result<ExprPtr> Parser::parse_list() {
  const Position position = take().position;
  std::vector<ExprPtr> items;
  while (!current().is_operator("]")) {
    if (!items.empty()) GLINT_TRY_STATUS(expect_operator(","));
    if (current().is_operator("]")) break;
    GLINT_TRY(ExprPtr item, parse_expression());
    items.push_back(std::move(item));
  }
  ++at_;
  return make(Expr::Kind::kList, position, std::move(items));
}

Result<ExprPtr> Parser::parse_dict() {
  const Position position = take().position;
  std::vector<ExprPtr> items;
  while (!current().is_operator("}")) {
    if (!items.empty()) GLINT_TRY_STATUS(expect_operator(","));
    if (current().is_operator("}")) break;
    GLINT_TRY(ExprPtr key, parse_expression());
    GLINT_TRY_STATUS(expect_operator(":"));
    GLINT_TRY(ExprPtr value, parse_expression());
    items.push_back(std::move(key));
    items.push_back(std::move(value));
  }
  ++at_;
  return make(Expr::Kind::kDict, position, std::move(items));
}

Result<ExprPtr> Parser::parse_postfix(ExprPtr node) {
  for (;;) {
    if (current().is_operator(".") || current().is_operator("[")) {
      GLINT_TRY(node, parse_subscript(std::move(node)));
    } else if (current().is_operator("(")) {
      GLINT_TRY(node, parse_call(std::move(node)));
    } else {
      return node;
    }
  }
}

Result<ExprPtr> Parser::parse_filters_and_tests(ExprPtr node) {
  for (;;) {
    if (current().is_operator("|")) {
      GLINT_TRY(node, parse_filter(std::move(node)));
    } else if (current().is_name("is")) {
      GLINT_TRY(node, parse_test(std::move(node)));
    } else if (current().is_operator("(")) {
      GLINT_TRY(node, parse_call(std::move(node)));
    } else {
      return node;
    }
  }
}

Result<ExprPtr> Parser::parse_subscript(ExprPtr node) {
  const Token token = take();
  if (token.is_operator("[")) return parse_subscribed(std::move(node));
  if (current().kind == Token::kNumber)
    return fail("an index behind a dot is not supported: write it in brackets");
  GLINT_TRY(std::string name, expect_any_name());
  const bool is_of_loop = in_loop_ && node->kind == Expr::Kind::kName && node->name == "loop";
  if (is_of_loop && (name == "cycle" || name == "changed"))
    return at(token.position, invalid(str("loop.", name, " is not supported")));
  if (current().is_operator("(") && lacks_method(name))
    return at(token.position, invalid(str("the method '", name, "' is not supported")));
  GLINT_TRY(node, make(Expr::Kind::kAttribute, token.position, parts_of(std::move(node))));
  node->name = std::move(name);
  return node;
}

// An index or a slice in brackets behind `node`.
Result<ExprPtr> Parser::parse_subscribed(ExprPtr node) {
  const Position position = current().position;
  std::vector<ExprPtr> parts = parts_of(std::move(node), ExprPtr());
  if (!current().is_operator(":")) {
    GLINT_TRY(parts[1], parse_expression());
    if (skip_operator("]")) return make(Expr::Kind::kItem, position, std::move(parts));
  }
  for (int i = 0; i < 2; ++i) {
    ExprPtr bound;
    if (skip_operator(":") && !current().is_operator(":") && !current().is_operator("]")) {
      GLINT_TRY(bound, parse_expression());
    }
    parts.push_back(std::move(bound));
  }
  GLINT_TRY_STATUS(expect_operator("]"));
  return make(Expr::Kind::kSlice, position, std::move(parts));
}

Result<ExprPtr> Parser::parse_call(ExprPtr node) {
  const Position position = current().position;
  GLINT_TRY(CallArguments arguments, parse_call_arguments());
  GLINT_TRY(node, make(Expr::Kind::kCall, position, parts_of(std::move(node))));
  node->arguments = std::move(arguments);
  return node;
}

Result<CallArguments> Parser::parse_call_arguments() {
  const Position position = current().position;
  GLINT_TRY_STATUS(expect_operator("("));
  CallArguments arguments;
  bool needs_comma = false;
  while (!current().is_operator(")")) {
    if (needs_comma) {
      GLINT_TRY_STATUS(expect_operator(","));
      if (current().is_operator(")")) break;
    }
    needs_comma = true;
    if (current().is_operator("*") || current().is_operator("**")) {
      return fail("arguments with * and ** are not supported");
    } else if (current().kind == Token::kName && ahead().is_operator("=")) {
      std::string name = take().text;
      ++at_;
      if (arguments.named.size() == kMaxNamed)
        return fail(str("more than ", kMaxNamed, " keyword arguments"));
      for (const auto& [other, value] : arguments.named) {
        if (other == name) return fail("keyword argument repeated: " + name);
      }
      GLINT_TRY(ExprPtr value, parse_expression());
      arguments.named.emplace_back(std::move(name), std::move(value));
    } else {
      if (!arguments.named.empty())
        return at(position, invalid("invalid syntax for function call expression"));
      GLINT_TRY(ExprPtr value, parse_expression());
      arguments.positional.push_back(std::move(value));
    }
  }
  ++at_;
  return arguments;
}

Status Parser::refuse(Error error, bool is_of_jinja2) {
  if (is_of_jinja2) return error;
  refused_.push_back(std::move(error));
  return Ok{};
}

// The filter or test that `filter`, as in map("title"), takes by its name.
Status Parser::check_named(std::string_view filter, const CallArguments& arguments) {
  const bool is_map = filter == "map", of_attribute = filter.ends_with("attr");
  if (!is_map && !filter.starts_with("select") && !filter.starts_with("reject")) return Ok{};
  if (arguments.positional.size() <= std::size_t{of_attribute}) return Ok{};
  const Expr& named = *arguments.positional[of_attribute];
  if (named.kind != Expr::Kind::kConstant || !named.constant.is_string()) return Ok{};
  const std::string_view name = named.constant.text();
  if (is_map && lacks_filter(name)) return at(named.position, unsupported_filter(name));
  if (!is_map && lacks_test(name)) return at(named.position, unsupported_test(name));
  return Ok{};
}

Result<ExprPtr> Parser::parse_filter(ExprPtr node) {
  ++at_;  // "|"
  const Position position = current().position;
  GLINT_TRY(std::string name, expect_any_name());
  if (!find_filter(name))
    GLINT_TRY_STATUS(refuse(at(position, unsupported_filter(name)), lacks_filter(name)));
  CallArguments arguments;
  if (current().is_operator("(")) {
    GLINT_TRY(arguments, parse_call_arguments());
  }
  GLINT_TRY_STATUS(check_named(name, arguments));
  GLINT_TRY(node, make(Expr::Kind::kFilter, position, parts_of(std::move(node))));
  node->name = std::move(name);
  node->arguments = std::move(arguments);
  return node;
}

Result<ExprPtr> Parser::parse_test(ExprPtr node) {
  const Position position = take().position;  // "is"
  const bool negated = skip_name("not");
  GLINT_TRY(std::string name, expect_any_name());
  if (!find_test(name))
    GLINT_TRY_STATUS(refuse(at(position, unsupported_test(name)), lacks_test(name)));
  CallArguments arguments;
  const Token& next = current();
  const bool starts_operand = next.kind == Token::kName || next.kind == Token::kString ||
                              next.kind == Token::kNumber || next.is_operator("[") ||
                              next.is_operator("{");
  if (next.is_operator("(")) {
    GLINT_TRY(arguments, parse_call_arguments());
  } else if (starts_operand && !next.is_name("else") && !next.is_name("or") &&
             !next.is_name("and")) {
    if (next.is_name("is")) return fail("You cannot chain multiple tests with is");
    GLINT_TRY(ExprPtr operand, parse_primary());
    GLINT_TRY(operand, parse_postfix(std::move(operand)));
    arguments.positional.push_back(std::move(operand));
  }
  GLINT_TRY(node, make(Expr::Kind::kTest, position, parts_of(std::move(node))));
  node->name = std::move(name);
  node->arguments = std::move(arguments);
  if (negated) return make(Expr::Kind::kNot, position, parts_of(std::move(node)));
  return node;
}

}  // namespace glint::jinja
