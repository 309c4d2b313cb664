// Recursive descent over the tokens of a template; its grammar is jinja2's. Internal to the
// parser's two sources.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"

namespace glint::jinja {

// Keyword arguments of a call, parameters of a macro: they are looked for one after another.
inline constexpr std::size_t kMaxNamed = 1000;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Result<TemplateTree> parse_template();

 private:
  using Names = std::initializer_list<std::string_view>;

  // Tokens.
  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[at_ + (at_ + 1 < tokens_.size())]; }
  Token take();
  bool skip_name(std::string_view name);
  bool skip_operator(std::string_view sign);
  Status expect_name(std::string_view name);
  Status expect_operator(std::string_view sign);
  Status expect(Token::Kind kind, std::string_view description);
  Result<std::string> expect_any_name();
  Error fail(std::string message) const {
    return at(current().position, invalid(std::move(message)));
  }

  // statement_parser.cc
  // Statements up to a tag that begins with one of `ends`, which stays; with none given, to the
  // end.
  Result<Body> parse_body(Names ends);
  Result<Body> parse_block_body(Names ends);           // from the end of the opening tag
  Result<Body> parse_last_body(std::string_view end);  // takes the closing tag's name too
  Result<std::unique_ptr<Stmt>> parse_statement();
  Status parse_set(Stmt& statement);
  Status parse_for(Stmt& statement);
  Status parse_if(Stmt& statement);
  Status parse_with(Stmt& statement);
  Status parse_macro(Stmt& statement);
  Status parse_call_block(Stmt& statement);
  Status parse_generation(Stmt& statement);
  Status parse_filter_block(Stmt& statement);
  Status parse_print(Stmt& statement);
  Status parse_loop_control(Stmt& statement);
  Status parse_signature(MacroDefinition& macro);
  Error unknown_tag(const std::string& name) const;

  // expression_parser.cc
  struct TupleStyle {
    bool simple = false;        // names and literals only, as in an assignment
    bool conditional = true;    // may hold "a if b else c"
    bool may_be_empty = false;  // in parentheses
    bool namespaces = false;    // "ns.x" is a target
  };
  Result<ExprPtr> parse_tuple(const TupleStyle& style);
  Result<ExprPtr> parse_expression(bool conditional = true);
  Result<ExprPtr> parse_conditional();
  Result<ExprPtr> parse_or();
  Result<ExprPtr> parse_and();
  Result<ExprPtr> parse_not();
  Result<ExprPtr> parse_compare();
  Result<ExprPtr> parse_sum();
  Result<ExprPtr> parse_concat();
  Result<ExprPtr> parse_product();
  Result<ExprPtr> parse_power();
  Result<ExprPtr> parse_unary(bool with_filters = true);
  Result<ExprPtr> parse_primary(bool namespaces = false);
  Result<ExprPtr> parse_name(bool namespaces);
  Result<ExprPtr> parse_list();
  Result<ExprPtr> parse_dict();
  Result<ExprPtr> parse_postfix(ExprPtr node);
  Result<ExprPtr> parse_filters_and_tests(ExprPtr node);
  Result<ExprPtr> parse_subscript(ExprPtr node);
  Result<ExprPtr> parse_subscribed(ExprPtr node);
  Result<ExprPtr> parse_call(ExprPtr node);
  Result<CallArguments> parse_call_arguments();
  // A chain of filters after `node`; `starts_with_name`: the first "|" is absent.
  Result<ExprPtr> parse_filter_chain(ExprPtr node, bool starts_with_name);
  Result<ExprPtr> parse_test(ExprPtr node);
  Result<ExprPtr> parse_target(const TupleStyle& style);

  // A node of the tree below which are `parts`; fails if it nests too deep.
  Result<ExprPtr> make(Expr::Kind kind, Position position, std::vector<ExprPtr> parts = {});
  static Status check_assignable(const Expr& target);

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int nesting_ = 0;                     // of recursion, in expressions and statements
  std::vector<std::string> open_tags_;  // the tags around the current one
};

// Makes a Parser function fail rather than recurse without end.
class NestingGuard {
 public:
  explicit NestingGuard(int& level) : level_(level) { ++level_; }
  ~NestingGuard() { --level_; }
  NestingGuard(const NestingGuard&) = delete;
  NestingGuard& operator=(const NestingGuard&) = delete;
  bool too_deep() const { return level_ > kMaxNesting; }

  static constexpr int kMaxNesting = 200;  // as in CPython, for brackets

 private:
  int& level_;
};

}  // namespace glint::jinja
