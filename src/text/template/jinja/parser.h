// Recursive descent over the tokens of a template; its grammar is jinja2's. Internal to the
// parser's two sources.
#pragma once

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "text/template/jinja/ast.h"

namespace glint::jinja {

// Keyword arguments of a call, parameters of a macro: they are looked for one after another.
inline constexpr std::size_t kMaxNamed = 1000;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Result<TemplateTree> parse_template();

 private:
  using Names = std::initializer_list<std::string_view>;

  // While a tag's body is read that has variables of its own.
  enum class Opens { kLoop, kBlock, kFunction };  // a function has no loop around it
  class ScopeGuard {
   public:
    ScopeGuard(Parser& parser, Opens opens) : parser_(parser), was_in_loop_(parser.in_loop_) {
      ++parser.num_scopes_;
      if (opens != Opens::kBlock) parser.in_loop_ = opens == Opens::kLoop;
    }
    ~ScopeGuard() {
      --parser_.num_scopes_;
      parser_.in_loop_ = was_in_loop_;
    }
    ScopeGuard(const ScopeGuard&) = delete;
    ScopeGuard& operator=(const ScopeGuard&) = delete;

   private:
    Parser& parser_;
    const bool was_in_loop_;
  };

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
  Status parse_generation(Stmt& statement);
  Status parse_loop_control(Stmt& statement);
  Status parse_signature(MacroDefinition& macro);
  void note_set(const Expr& target);  // for TemplateTree's own_names
  void note_set(const std::string& name);
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
  // At once, or once it is run: see refused_.
  Status refuse(Error error, bool is_of_jinja2);
  static Status check_named(std::string_view filter, const CallArguments& arguments);
  Result<ExprPtr> parse_filter(ExprPtr node);
  Result<ExprPtr> parse_test(ExprPtr node);
  Result<ExprPtr> parse_target(const TupleStyle& style);

  // A node of the tree below which are `parts`; fails if it nests too deep.
  Result<ExprPtr> make(Expr::Kind kind, Position position, std::vector<ExprPtr> parts = {});
  static Status check_assignable(const Expr& target);

  // Lets the refusals after the first `count` wait until what they are about is run.
  void forgive(std::size_t count) {
    refused_.erase(refused_.begin() + static_cast<std::ptrdiff_t>(count), refused_.end());
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  std::vector<Error> refused_;        // filters and tests that jinja2 has not either
  std::set<std::string> used_names_;  // by statements whose variables are the template's
  std::vector<std::string> own_names_;
  int num_scopes_ = 0;                  // open around the current token
  bool in_loop_ = false;                // may break and continue stand here?
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
