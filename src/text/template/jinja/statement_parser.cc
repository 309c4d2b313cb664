// The half of the parser that reads statements.
#include <algorithm>

#include "base/contains.h"
#include "base/str.h"
#include "text/template/jinja/parser.h"

namespace glint::jinja {

Result<TemplateTree> parse(std::string_view source) {
  GLINT_TRY(std::vector<Token> tokens, tokenize(source));
  return Parser(std::move(tokens)).parse_template();
}

Result<TemplateTree> Parser::parse_template() {
  TemplateTree tree;
  GLINT_TRY(tree.body, parse_body({}));
  if (!refused_.empty()) return refused_[0];
  tree.own_names = std::move(own_names_);
  return tree;
}

Result<Body> Parser::parse_body(Names ends) {
  const NestingGuard guard(nesting_);
  if (guard.too_deep()) return fail("statements nest too deep");
  Body body;
  for (;;) {
    const Position position = current().position;
    switch (current().kind) {
      case Token::kEnd:
        return body;
      case Token::kData: {
        auto& data = *body.emplace_back(std::make_unique<Stmt>(Stmt{Stmt::Kind::kData, position}));
        data.text = take().text;
        break;
      }
      case Token::kVariableBegin: {
        ++at_;
        auto& output =
            *body.emplace_back(std::make_unique<Stmt>(Stmt{Stmt::Kind::kOutput, position}));
        GLINT_TRY(output.value, parse_tuple({}));
        GLINT_TRY_STATUS(expect(Token::kVariableEnd, "end of print statement"));
        break;
      }
      default: {
        GLINT_TRY_STATUS(expect(Token::kBlockBegin, "begin of statement block"));
        const bool is_end = std::any_of(
            ends.begin(), ends.end(), [&](std::string_view end) { return current().is_name(end); });
        if (is_end) return body;
        GLINT_TRY(std::unique_ptr<Stmt> statement, parse_statement());
        body.push_back(std::move(statement));
        GLINT_TRY_STATUS(expect(Token::kBlockEnd, "end of statement block"));
      }
    }
  }
}

Result<Body> Parser::parse_block_body(Names ends) {
  skip_operator(":");  // for those who come from Python
  GLINT_TRY_STATUS(expect(Token::kBlockEnd, "end of statement block"));
  GLINT_TRY(Body body, parse_body(ends));
  if (current().kind == Token::kEnd) {
    std::string wanted;
    for (const std::string_view end : ends) wanted += str(wanted.empty() ? "'" : " or '", end, "'");
    return fail(
        str("Unexpected end of template. Jinja was looking for the following tags: ", wanted,
            ". The innermost block that needs to be closed is '", open_tags_.back(), "'."));
  }
  return body;
}

Result<Body> Parser::parse_last_body(std::string_view end) {
  GLINT_TRY(Body body, parse_block_body({end}));
  ++at_;
  return body;
}

Result<std::unique_ptr<Stmt>> Parser::parse_statement() {
  using Kind = Stmt::Kind;
  struct Tag {
    std::string_view name;
    Kind kind;
    Status (Parser::*parse)(Stmt&);
  };
  static constexpr Tag kTags[] = {
      {"for", Kind::kFor, &Parser::parse_for},
      {"if", Kind::kIf, &Parser::parse_if},
      {"set", Kind::kSet, &Parser::parse_set},
      {"macro", Kind::kMacro, &Parser::parse_macro},
      {"with", Kind::kWith, &Parser::parse_with},
      {"generation", Kind::kGeneration, &Parser::parse_generation},
      {"break", Kind::kBreak, &Parser::parse_loop_control},
      {"continue", Kind::kContinue, &Parser::parse_loop_control},
  };
  if (current().kind != Token::kName) return fail("tag name expected");
  const Token token = take();
  const auto* tag = std::find_if(std::begin(kTags), std::end(kTags),
                                 [&](const Tag& tag) { return tag.name == token.text; });
  if (tag == std::end(kTags)) return at(token.position, unknown_tag(token.text));
  auto statement = std::make_unique<Stmt>(Stmt{tag->kind, token.position});
  open_tags_.push_back(token.text);
  GLINT_TRY_STATUS((this->*tag->parse)(*statement));
  open_tags_.pop_back();
  return statement;
}

Error Parser::unknown_tag(const std::string& name) const {
  for (const char* tag : {"autoescape", "block", "call", "do", "extends", "filter", "from",
                          "import", "include", "print", "trans"}) {
    if (name == tag) return invalid("the tag '" + name + "' is not supported");
  }
  std::string message = "Encountered unknown tag '" + name + "'.";
  if (!open_tags_.empty()) {
    message += " The innermost block that needs to be closed is '" + open_tags_.back() + "'.";
  }
  return invalid(std::move(message));
}

void Parser::note_set(const std::string& name) {
  const bool is_first = num_scopes_ == 0 && used_names_.insert(name).second;
  if (is_first && open_tags_.size() == 1) own_names_.push_back(name);
}

void Parser::note_set(const Expr& target) {
  if (target.kind == Expr::Kind::kName) note_set(target.name);
  for (const ExprPtr& part : target.parts) note_set(*part);
}

Status Parser::parse_set(Stmt& statement) {
  GLINT_TRY(statement.target, parse_target({.simple = true, .namespaces = true}));
  if (skip_operator("=")) {
    GLINT_TRY(statement.value, parse_tuple({}));
    note_set(*statement.target);
    return Ok{};
  }
  note_set(*statement.target);
  if (current().is_operator("|")) return fail("a filter of a set block is not supported");
  statement.kind = Stmt::Kind::kSetBlock;
  const ScopeGuard scope(*this, Opens::kBlock);
  GLINT_TRY(statement.body, parse_last_body("endset"));
  return Ok{};
}

Status Parser::parse_for(Stmt& statement) {
  GLINT_TRY(statement.target, parse_target({.simple = true}));
  GLINT_TRY_STATUS(expect_name("in"));
  GLINT_TRY(statement.value, parse_tuple({.conditional = false}));
  if (skip_name("if")) {
    GLINT_TRY(statement.test, parse_expression());
  }
  if (current().is_name("recursive")) return fail("recursive loops are not supported");
  {
    const ScopeGuard scope(*this, Opens::kLoop);
    GLINT_TRY(statement.body, parse_block_body({"endfor", "else"}));
  }
  if (take().text == "else") {
    const ScopeGuard scope(*this, Opens::kBlock);
    GLINT_TRY(statement.otherwise, parse_last_body("endfor"));
  }
  return Ok{};
}

// An unknown filter or test below an if may never be run: it is an error then and not before.
Status Parser::parse_if(Stmt& statement) {
  const std::size_t num_refused = refused_.size();
  for (;;) {
    Stmt::Branch& branch = statement.branches.emplace_back();
    GLINT_TRY(branch.test, parse_tuple({.conditional = false}));
    GLINT_TRY(branch.body, parse_block_body({"elif", "else", "endif"}));
    forgive(num_refused);
    const std::string next = take().text;
    if (next == "endif") return Ok{};
    if (next == "else") break;
  }
  GLINT_TRY(statement.branches.emplace_back().body, parse_last_body("endif"));
  forgive(num_refused);
  return Ok{};
}

Status Parser::parse_with(Stmt& statement) {
  while (current().kind != Token::kBlockEnd) {
    if (!statement.assignments.empty()) GLINT_TRY_STATUS(expect_operator(","));
    GLINT_TRY(ExprPtr target, parse_target({.simple = true}));
    GLINT_TRY_STATUS(expect_operator("="));
    GLINT_TRY(ExprPtr value, parse_expression());
    statement.assignments.emplace_back(std::move(target), std::move(value));
  }
  const ScopeGuard scope(*this, Opens::kBlock);
  GLINT_TRY(statement.body, parse_last_body("endwith"));
  return Ok{};
}

Status Parser::parse_signature(MacroDefinition& macro) {
  GLINT_TRY_STATUS(expect_operator("("));
  while (!current().is_operator(")")) {
    if (!macro.parameters.empty()) GLINT_TRY_STATUS(expect_operator(","));
    GLINT_TRY(std::string name, expect_any_name());
    if (macro.parameters.size() == kMaxNamed)
      return fail(str("more than ", kMaxNamed, " parameters"));
    if (glint::contains(macro.parameters, name))
      return fail("duplicate argument '" + name + "' in function definition");
    macro.parameters.push_back(std::move(name));
    if (skip_operator("=")) {
      GLINT_TRY(ExprPtr value, parse_expression());
      macro.defaults.push_back(std::move(value));
    } else if (!macro.defaults.empty()) {
      return fail("non-default argument follows default argument");
    }
  }
  return expect_operator(")");
}

Status Parser::parse_macro(Stmt& statement) {
  // So that the variables around a macro are those of the template, which outlive it.
  if (num_scopes_ > 0) return fail("a macro in a loop, a block or a macro is not supported");
  statement.macro = std::make_unique<MacroDefinition>();
  GLINT_TRY(statement.macro->name, expect_any_name());
  note_set(statement.macro->name);
  GLINT_TRY_STATUS(parse_signature(*statement.macro));
  const ScopeGuard scope(*this, Opens::kFunction);
  GLINT_TRY(statement.macro->body, parse_last_body("endmacro"));
  return Ok{};
}

// {% generation %}: transformers marks what the assistant said. To the text it makes no difference.
Status Parser::parse_generation(Stmt& statement) {
  const ScopeGuard scope(*this, Opens::kFunction);
  GLINT_TRY(statement.body, parse_last_body("endgeneration"));
  return Ok{};
}

Status Parser::parse_loop_control(Stmt& statement) {
  if (in_loop_) return Ok{};
  return at(statement.position,
            invalid(statement.kind == Stmt::Kind::kBreak ? "'break' outside loop"
                                                         : "'continue' not properly in loop"));
}

}  // namespace glint::jinja
