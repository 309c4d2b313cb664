#include "text/grammar/grammar.h"

#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <stdexcept>

#include "base/contains.h"
#include "base/str.h"
#include "base/utf8.h"
#include "text/grammar/grammar_pattern.h"
#include "text/grammar/grammar_schema.h"
#include "text/grammar/grammar_tools.h"
#include "text/grammar/structural_tag.h"

// xgrammar's messages come here (tools/setup.sh builds it so). Its warnings, "X is not supported;
// ignoring X", are errors, without what is not true then: no part of a schema is ignored silently.
namespace xgrammar {

constexpr int kWarning = 2;

[[noreturn]] void LogFatalImpl(const std::string&, int, const std::string& message) {
  throw std::runtime_error(message);
}

void LogMessageImpl(const std::string& file, int, int level, const std::string& message) {
  const bool is_compiling = !file.ends_with("grammar_matcher.cc");
  if (level < kWarning || !is_compiling) return;
  std::string text = message;
  for (const char* untrue : {"; ignoring ", "; falling back", ". It is ignored"})
    text = text.substr(0, text.find(untrue));
  if (const std::size_t ignored = text.find(" is ignored"); ignored != text.npos)
    text = text.substr(0, ignored) + " is not supported";
  throw std::runtime_error(text);
}

}  // namespace xgrammar

namespace glint {

class CompiledGrammar {
 public:
  // The markers of tool calls: they may come, never or anywhere, or only in an answer that begins
  // with one.
  enum class Markers { kNever, kAnywhere, kFromTheStart };

  CompiledGrammar(xgrammar::CompiledGrammar grammar, Markers markers)
      : grammar(std::move(grammar)), markers(markers) {}

  static constexpr int kNumMarkers = 3;

  const xgrammar::CompiledGrammar grammar;
  const Markers markers;
};

namespace {

using Markers = CompiledGrammar::Markers;

constexpr std::size_t kMaxTextBytes = 256 * 1024;  // of a schema or EBNF
constexpr std::size_t kMaxRegexBytes = 16 * 1024;  // of an expression
constexpr std::size_t kMaxChoices = 10000;

// States that a matcher keeps of what it has read, besides 32 a byte: 11 MB.
constexpr std::int64_t kMaxHistory = std::int64_t{1} << 18;

// One sentence in lower case of what xgrammar says.
Error grammar_error(const char* what) {
  std::string text(what);
  text.erase(0, text.find_first_not_of(" \n"));
  text.erase(std::min(text.find('\n'), text.size()));
  while (!text.empty() && (text.back() == '.' || text.back() == ' ')) text.pop_back();
  if (text.ends_with("but got")) text += " the end";
  if (text.size() > 300) text = text.substr(0, 300) + " ...";
  if (text.empty()) text = "it has no grammar";  // some of xgrammar's exceptions say nothing
  const bool is_word = text.size() > 1 && std::islower(static_cast<unsigned char>(text[1]));
  if (is_word) text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return invalid(lossy_utf8(text));  // it quotes single bytes of characters
}

// The spelling of tokens, shared by all constraints.
struct Vocabulary {
  explicit Vocabulary(const GrammarVocabulary& from)
      : markers(from.markers),
        stop_ids(from.stop_ids),
        end_think(from.end_think),
        tool_call(from.tool_call),
        size(from.size()) {
    for (const std::string& text : from.texts) is_text.push_back(!text.empty());
  }

  const std::vector<TokenId> markers;  // of tool calls
  std::vector<bool> is_text;           // by id: the token has a text a grammar can match
  const std::vector<TokenId> stop_ids;
  const std::optional<TokenId> end_think, tool_call;
  const int size;  // the model's
};

void set_bit(std::span<std::uint32_t> bits, TokenId id, bool value) {
  std::uint32_t& word = bits[static_cast<std::size_t>(id) / 32];
  const std::uint32_t bit = std::uint32_t{1} << (id % 32);
  word = value ? word | bit : word & ~bit;
}

DLTensor mask_tensor(std::span<std::uint32_t> bits, std::int64_t& size) {
  size = static_cast<std::int64_t>(bits.size());
  DLTensor mask{};
  mask.data = bits.data();
  mask.device = {kDLCPU, 0};
  mask.ndim = 1;
  mask.dtype = xgrammar::GetBitmaskDLType();
  mask.shape = &size;
  return mask;
}

xgrammar::GrammarMatcher begin_matching(const xgrammar::CompiledGrammar& grammar) {
  return {grammar, std::nullopt, false, -1, std::nullopt, kQuickMaskWork};
}

class GrammarConstraint final : public TokenConstraint {
 public:
  GrammarConstraint(std::shared_ptr<const CompiledGrammar> grammar,
                    std::shared_ptr<const Vocabulary> vocabulary, bool after_reasoning)
      : grammar_(std::move(grammar)),
        vocabulary_(std::move(vocabulary)),
        matcher_(begin_matching(grammar_->grammar)),
        may_be_empty_(matcher_.IsCompleted()),
        in_reasoning_(after_reasoning) {}

  Next fill_mask(std::span<std::uint32_t> bits, std::int64_t max_work) override {
    GLINT_CHECK(bits.size() >= num_words(), "the mask is too small");
    if (exhausted_) return Next::kGivenUp;
    if (in_reasoning_) return fill_reasoning(bits);
    std::fill(bits.begin(), bits.end(), 0);
    bool can_end = matcher_.IsTerminated();
    if (!can_end) {
      if (!fill_matching(bits, max_work)) return Next::kGivenUp;
      can_end = matcher_.IsCompleted();
    }
    for (const TokenId id : vocabulary_->stop_ids) set_bit(bits, id, false);
    const bool only_end =
        can_end && std::all_of(bits.begin(), bits.end(), [](auto word) { return word == 0; });
    for (const TokenId id : vocabulary_->stop_ids) set_bit(bits, id, can_end);
    return only_end ? Next::kEnd : Next::kMasked;
  }

  bool accept(TokenId token) override {
    const bool is_call = token == vocabulary_->tool_call;
    const bool starts_call = grammar_->markers != Markers::kNever && is_call;
    if (!in_reasoning_ || starts_call) {
      if (!matches(token)) return false;
      if (num_matched_ == 0) began_with_call_ = is_call;
      if (in_reasoning_) reasoning_end_ = num_tokens_;
      in_reasoning_ = false;
      ++num_matched_;
    } else if (token == vocabulary_->end_think) {
      reasoning_end_ = num_tokens_;
      in_reasoning_ = false;
    } else if (!may_be_empty_ && contains(vocabulary_->stop_ids, token)) {
      return false;
    }
    ++num_tokens_;
    return true;
  }

  void rollback(int count) override {
    GLINT_CHECK(count >= 0 && count <= num_tokens_, "more tokens than there were");
    const int matched = std::min(count, num_matched_);
    if (matched > 0 && !exhausted_) matcher_.Rollback(matched);
    num_matched_ -= matched;
    num_tokens_ -= count;
    if (num_tokens_ <= reasoning_end_) {
      in_reasoning_ = true;
      reasoning_end_ = -1;
    }
  }

 private:
  std::size_t num_words() const { return static_cast<std::size_t>(vocabulary_->size + 31) / 32; }

  // An answer that ended in its thought would have nothing of the grammar.
  Next fill_reasoning(std::span<std::uint32_t> bits) const {
    if (may_be_empty_) return Next::kAnything;
    std::fill(bits.begin(), bits.end(), ~std::uint32_t{0});
    for (const TokenId id : vocabulary_->stop_ids) set_bit(bits, id, false);
    return Next::kMasked;
  }

  bool markers_may_come() const {
    if (grammar_->markers != Markers::kFromTheStart) return grammar_->markers == Markers::kAnywhere;
    return num_matched_ == 0 || began_with_call_;
  }

  // False: it was given up.
  bool fill_matching(std::span<std::uint32_t> bits, std::int64_t max_work) {
    std::int64_t size = 0;
    DLTensor mask = mask_tensor(bits.first(num_words()), size);
    try {
      matcher_.SetBudget(max_work, kMaxHistory);
      matcher_.FillNextTokenBitmask(&mask);
    } catch (const xgrammar::BudgetError&) {
      return false;
    } catch (const std::exception&) {  // a fault of its own ends this answer only
      std::fill(bits.begin(), bits.end(), 0);
    }
    if (markers_may_come()) return true;
    for (const TokenId id : vocabulary_->markers) set_bit(bits, id, false);
    return true;
  }

  bool matches(TokenId token) {
    if (exhausted_) return true;
    if (token < 0 || token >= vocabulary_->size || matcher_.IsTerminated()) return false;
    if (!vocabulary_->is_text[static_cast<std::size_t>(token)]) {
      if (!contains(vocabulary_->stop_ids, token)) return false;
    } else if (!markers_may_come() && contains(vocabulary_->markers, token)) {
      return false;
    }
    try {
      matcher_.SetBudget(kQuickMaskWork, kMaxHistory);
      return matcher_.AcceptToken(token);
    } catch (const xgrammar::BudgetError&) {
      exhausted_ = true;
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  const std::shared_ptr<const CompiledGrammar> grammar_;
  const std::shared_ptr<const Vocabulary> vocabulary_;
  xgrammar::GrammarMatcher matcher_;
  const bool may_be_empty_;
  bool exhausted_ = false;  // a token took too much work: the matcher is not to be used any more
  bool in_reasoning_;
  int reasoning_end_ = -1;  // the token that ended it: </think>, or the first of the grammar
  int num_tokens_ = 0;
  int num_matched_ = 0;           // by the grammar
  bool began_with_call_ = false;  // the first of these is <tool_call>
};

class ForbiddenTokens final : public TokenConstraint {
 public:
  ForbiddenTokens(std::vector<TokenId> ids, std::shared_ptr<TokenConstraint> inner)
      : ids_(std::move(ids)), inner_(std::move(inner)) {}

  Next fill_mask(std::span<std::uint32_t> bits, std::int64_t max_work) override {
    const Next next = inner_ ? inner_->fill_mask(bits, max_work) : Next::kAnything;
    if (next == Next::kGivenUp) return next;
    if (next == Next::kAnything) std::fill(bits.begin(), bits.end(), ~0u);
    for (const TokenId id : ids_) {
      if (id >= 0 && static_cast<std::size_t>(id) < bits.size() * 32) set_bit(bits, id, false);
    }
    return next == Next::kEnd ? next : Next::kMasked;
  }
  bool accept(TokenId token) override {
    return !contains(ids_, token) && (!inner_ || inner_->accept(token));
  }
  void rollback(int count) override {
    if (inner_) inner_->rollback(count);
  }

 private:
  const std::vector<TokenId> ids_;
  const std::shared_ptr<TokenConstraint> inner_;
};

Result<xgrammar::Grammar> schema_grammar(Json schema) {
  GLINT_TRY_STATUS(prepare_schema(schema).in("the JSON schema"));
  return xgrammar::Grammar::FromJSONSchema(dump_json(schema), /*any_whitespace=*/true,
                                           /*indent=*/std::nullopt, /*separators=*/std::nullopt,
                                           /*strict_mode=*/true, kMaxJsonBlanks);
}

Result<xgrammar::Grammar> tag_grammar(const Json& tag) {
  auto made = xgrammar::Grammar::FromStructuralTag(dump_json(tag));
  if (auto* grammar = std::get_if<xgrammar::Grammar>(&made)) return std::move(*grammar);
  return std::visit([](const auto& error) { return grammar_error(error.what()); },
                    std::get<xgrammar::StructuralTagError>(made));
}

Result<xgrammar::Grammar> choice_grammar(const std::vector<std::string>& choices) {
  Json::Array elements;
  for (const std::string& choice : choices)
    elements.push_back(Json::Object{{"type", "const_string"}, {"value", choice}});
  Json format = Json::Object{{"type", "or"}, {"elements", std::move(elements)}};
  return tag_grammar(Json::Object{{"type", "structural_tag"}, {"format", std::move(format)}});
}

// `whole` is of `expression`, of which errors tell the positions.
Result<xgrammar::Grammar> checked_regex(const std::string& expression, const std::string& whole) {
  try {
    return xgrammar::Grammar::FromRegex(whole);
  } catch (const std::exception& error) {
    const Error of_whole = grammar_error(error.what());
    // A fault in the grammar made of it has a place in that, "EBNF .. at line 1, column 5: ..".
    if (of_whole.message.starts_with("EBNF")) {
      const std::size_t reason = of_whole.message.find(": ");
      return invalid("the expression cannot be read" +
                     (reason == std::string::npos ? "" : of_whole.message.substr(reason)));
    }
    xgrammar::Grammar::FromRegex(expression);
    return of_whole;
  }
}

// xgrammar has two ways to read an expression. The first knows what it does not support; only the
// second, one automaton, has fast masks (microseconds where the other takes milliseconds).
Result<xgrammar::Grammar> regex_grammar(const std::string& expression) {
  GLINT_TRY_STATUS(check_expression(expression));
  const std::string whole = whole_text_pattern(expression, "");
  GLINT_TRY(xgrammar::Grammar checked, checked_regex(expression, whole));
  const auto is_control = [](char c) { return std::iscntrl(static_cast<unsigned char>(c)); };
  if (std::any_of(expression.begin(), expression.end(), is_control)) return checked;
  std::string literal;
  append_json_string(literal, whole);
  try {
    return xgrammar::Grammar::FromEBNF(str("root ::= Regex(", literal, ")"));
  } catch (const std::exception&) {
    return checked;
  }
}

// Optional parts in a row take xgrammar a time that grows with the cube of their number: 100 of
// them half a second, 800 half a minute.
constexpr int kMaxOptional = 100;

// Where the literal, class or comment that begins at `at` ends; `at` where none begins.
std::size_t end_of_text(std::string_view ebnf, std::size_t at) {
  const char begin = ebnf[at];
  if (begin == '#') return std::min(ebnf.find_first_of("\r\n", at), ebnf.size());
  if (begin != '"' && begin != '[') return at;
  const char end = begin == '"' ? '"' : ']';
  for (++at; at < ebnf.size() && ebnf[at] != end; ++at) at += ebnf[at] == '\\';
  return std::min(at, ebnf.size());
}

// Whether what is from `begin` to `end` may be attributes of a rule: `name[capture="x"] ::=`. Their
// texts are no texts in a class.
bool may_be_attributes(std::string_view ebnf, std::size_t begin, std::size_t end) {
  const auto is_of_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || contains(std::string_view("_-."), c);
  };
  return ebnf[begin] == '[' && begin > 0 && is_of_name(ebnf[begin - 1]) &&
         contains(ebnf.substr(begin, end - begin), '"');
}

Result<xgrammar::Grammar> ebnf_grammar(const std::string& text) {
  int num_optional = 0;       // of one rule
  bool begins_count = false;  // blanks and comments may come before the number
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (const std::size_t end = end_of_text(text, i); end > i) {
      if (may_be_attributes(text, i, end))
        return invalid(
            "attributes of a rule cannot hold texts; a class with a quote needs a blank before it");
      i = end;
      continue;
    }
    if (text.compare(i, 3, "::=") == 0) num_optional = 0;
    if (contains(std::string_view(" \t\r\n"), text[i])) continue;
    if (text[i] == '?' || text[i] == '*' || (begins_count && text[i] == '0')) ++num_optional;
    begins_count = text[i] == '{';
    if (num_optional > kMaxOptional)
      return invalid(str("a rule has more than ", kMaxOptional, " optional parts"));
  }
  return xgrammar::Grammar::FromEBNF(text);
}

Result<xgrammar::Grammar> calls_grammar(const GrammarSpec& spec) {
  GLINT_TRY(const Json tag, tool_call_grammar(spec.tools, {.at_least_one = spec.at_least_one,
                                                           .parallel = spec.parallel}));
  return tag_grammar(tag);
}

// Errors name the function.
Result<xgrammar::Grammar> strict_calls_grammar(const GrammarSpec& spec) {
  try {
    return calls_grammar(spec);
  } catch (const std::exception& of_all) {
    for (const ToolSpec& tool : spec.tools) {
      try {
        GLINT_TRY_STATUS(calls_grammar({.kind = spec.kind, .tools = {tool}}));
      } catch (const std::exception& error) {
        return invalid(str("parameters of function ", quoted(tool.name), ": ",
                           grammar_error(error.what()).message));
      }
    }
    return grammar_error(of_all.what());
  }
}

std::optional<xgrammar::Grammar> try_calls_grammar(const GrammarSpec& spec) {
  try {
    Result<xgrammar::Grammar> grammar = calls_grammar(spec);
    if (grammar.ok()) return std::move(grammar).value();
  } catch (const std::exception&) {  // the caller has another version to try
  }
  return {};
}

// For each function: its strictest version that has a grammar.
Result<xgrammar::Grammar> lenient_calls_grammar(GrammarSpec spec) {
  if (auto grammar = try_calls_grammar(spec)) return std::move(*grammar);
  const auto has_grammar = [&](const ToolSpec& tool) {
    return try_calls_grammar({.kind = spec.kind, .tools = {tool}}).has_value();
  };
  for (ToolSpec& tool : spec.tools.own()) {
    if (!has_grammar(tool)) tool = loosened_tool(tool, has_grammar);
    if (!has_grammar(tool)) tool.parameters = Json::Object{};
  }
  return calls_grammar(spec);
}

// Throws what xgrammar throws.
Result<xgrammar::Grammar> grammar_of(const GrammarSpec& spec) {
  using Kind = GrammarSpec::Kind;
  const bool is_regex = spec.kind == Kind::kRegex;
  const char* const what = is_regex ? "the expression" : "the grammar";
  const std::size_t most = is_regex ? kMaxRegexBytes : kMaxTextBytes;
  if (spec.text.size() > most)
    return invalid(str(what, " has ", spec.text.size(), " bytes, over the limit of ", most));
  if (!is_valid_utf8(spec.text)) return invalid(str(what, " is not UTF-8"));
  switch (spec.kind) {
    case Kind::kJsonObject:
      return schema_grammar(Json::Object{{"type", "object"}});
    case Kind::kJsonSchema: {
      GLINT_TRY(Json schema, parse_json(spec.text, {.max_depth = 128}).in("the JSON schema"));
      return schema_grammar(std::move(schema));
    }
    case Kind::kRegex:
      return regex_grammar(spec.text);
    case Kind::kEbnf:
      return ebnf_grammar(spec.text);
    case Kind::kChoice:
      if (spec.choices.empty()) return invalid("there is no choice");
      if (spec.choices.size() > kMaxChoices) {
        return invalid(
            str("there are ", spec.choices.size(), " choices, over the limit of ", kMaxChoices));
      }
      return choice_grammar(spec.choices);
    case Kind::kStructuralTag: {
      GLINT_TRY(const Json given, parse_json(spec.text, {.max_depth = 128}));
      GLINT_TRY(const Json tag, read_structural_tag(given).in("the structural tag"));
      return tag_grammar(tag);
    }
    case Kind::kToolCalls: {
      GLINT_TRY(xgrammar::Grammar calls,
                spec.lenient ? lenient_calls_grammar(spec) : strict_calls_grammar(spec));
      if (!spec.instead) return calls;
      GLINT_TRY(xgrammar::Grammar instead, grammar_of(*spec.instead));
      return xgrammar::Grammar::Union({std::move(calls), std::move(instead)});
    }
  }
  return invalid("unknown kind of grammar");
}

// Whether a tag is of calls in the model's own format. Its JSON may write a marker with escapes.
bool tag_has_calls(const std::string& tag) {
  const Result<Json> given = parse_json(tag, {.max_depth = 128});
  return given.ok() && dump_json(given.value()).find("<tool_call>") != std::string::npos;
}

Markers markers_of(const GrammarSpec& spec) {
  if (spec.kind == GrammarSpec::Kind::kStructuralTag && tag_has_calls(spec.text))
    return Markers::kAnywhere;
  if (spec.kind != GrammarSpec::Kind::kToolCalls) return Markers::kNever;
  return spec.instead ? Markers::kFromTheStart : Markers::kAnywhere;
}

}  // namespace

struct GrammarCompiler::Impl {
  explicit Impl(const GrammarVocabulary& from)
      : vocabulary(std::make_shared<const Vocabulary>(from)),
        tokens(from.texts, xgrammar::VocabType::RAW, from.size(), from.stop_ids),
        compiler(tokens, /*max_threads=*/1, /*cache_enabled=*/false) {}

  // Refuses what would fail at its first token: grammars that match nothing, and those whose
  // beginning alone is too much work.
  Status check_beginning(const xgrammar::CompiledGrammar& compiled) const {
    std::vector<std::uint32_t> bits(static_cast<std::size_t>(vocabulary->size + 31) / 32);
    std::int64_t size = 0;
    DLTensor mask = mask_tensor(bits, size);
    xgrammar::GrammarMatcher matcher = begin_matching(compiled);
    matcher.SetBudget(kMaxMaskWork, kMaxHistory);
    matcher.FillNextTokenBitmask(&mask);
    if (std::any_of(bits.begin(), bits.end(), [](std::uint32_t word) { return word != 0; }))
      return Ok{};
    return invalid("the grammar matches no text");
  }

  Result<std::shared_ptr<const CompiledGrammar>> compile(const GrammarSpec& spec) {
    try {
      GLINT_TRY(const xgrammar::Grammar grammar, grammar_of(spec));
      xgrammar::CompiledGrammar compiled = compiler.CompileGrammar(grammar);
      GLINT_TRY_STATUS(check_beginning(compiled));
      return std::make_shared<const CompiledGrammar>(std::move(compiled), markers_of(spec));
    } catch (const std::exception& error) {
      return grammar_error(error.what());
    }
  }

  const std::shared_ptr<const Vocabulary> vocabulary;
  const xgrammar::TokenizerInfo tokens;
  xgrammar::GrammarCompiler compiler;
};

std::size_t memory_bytes(const CompiledGrammar& grammar) {
  return grammar.grammar.MemorySizeBytes();
}

GrammarCompiler::GrammarCompiler(const GrammarVocabulary& vocabulary)
    : impl_(std::make_unique<Impl>(vocabulary)) {}

GrammarCompiler::~GrammarCompiler() = default;

Result<std::shared_ptr<const CompiledGrammar>> GrammarCompiler::compile(
    const GrammarSpec& spec) const {
  return impl_->compile(spec);
}

std::string GrammarCompiler::dump(const CompiledGrammar& grammar) const {
  return static_cast<char>(grammar.markers) + grammar.grammar.SerializeBinary();
}

Result<std::shared_ptr<const CompiledGrammar>> GrammarCompiler::load(std::string_view bytes) const {
  const bool ok = !bytes.empty() && bytes[0] >= 0 && bytes[0] < CompiledGrammar::kNumMarkers;
  if (!ok) return invalid("this is no compiled grammar");
  try {
    return std::make_shared<const CompiledGrammar>(
        xgrammar::CompiledGrammar::DeserializeBinary(std::string(bytes.substr(1)), impl_->tokens),
        static_cast<Markers>(bytes[0]));
  } catch (const std::exception& error) {
    return grammar_error(error.what());
  }
}

std::shared_ptr<TokenConstraint> GrammarCompiler::constrain(
    std::shared_ptr<const CompiledGrammar> grammar, bool after_reasoning) const {
  const bool can_wait = after_reasoning && impl_->vocabulary->end_think;
  return std::make_shared<GrammarConstraint>(std::move(grammar), impl_->vocabulary, can_wait);
}

std::shared_ptr<TokenConstraint> forbid_tokens(std::vector<TokenId> ids,
                                               std::shared_ptr<TokenConstraint> inner) {
  return std::make_shared<ForbiddenTokens>(std::move(ids), std::move(inner));
}

}  // namespace glint
