// Grammar: structured output. What a request asks for (a JSON schema, a regular expression, EBNF, a
// choice, tool calls in GLM's own format) is compiled once, on a text thread, into something from
// which each sequence gets a TokenConstraint. Wraps xgrammar, which only grammar.cc includes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/token_constraint.h"
#include "text/answer/delta_parser.h"

namespace glint {

struct GrammarSpec {
  enum class Kind { kJsonObject, kJsonSchema, kRegex, kEbnf, kChoice, kToolCalls, kStructuralTag };
  Kind kind = Kind::kJsonObject;
  std::string text = {};  // the schema, the expression, the EBNF or the structural tag
  std::vector<std::string> choices = {};
  // kToolCalls: the functions that may be called. `at_least_one`: the answer is calls and nothing
  // else (tool_choice required, or named when there is one function); else text, in which calls may
  // come. `parallel`: several calls. `lenient`: what no grammar can say of a function's arguments
  // is left open, where it would be an error.
  std::vector<ToolSpec> tools = {};
  bool at_least_one = true;
  bool parallel = true;
  bool lenient = false;
  // kToolCalls with at_least_one: the answer may also be this instead of calls; null: it may not.
  std::shared_ptr<const GrammarSpec> instead = {};
};

struct GrammarLimits {
  std::size_t max_text_bytes = 256 * 1024;  // of a schema or EBNF
  std::size_t max_regex_bytes = 16 * 1024;  // of an expression
  std::size_t max_choices = 10000;
  std::size_t cache_bytes = std::size_t{256} * 1024 * 1024;  // of compiled grammars
};

class CompiledGrammar;  // const; threads may share one

class GrammarCompiler {
 public:
  // `vocab_size` is the model's, which may be larger than the tokenizer's.
  GrammarCompiler(const Tokenizer& tokenizer, int vocab_size, std::vector<TokenId> stop_ids,
                  const GrammarLimits& limits = {});
  ~GrammarCompiler();

  // From any thread; results are kept and found again. Fails with the reason, in one sentence, on
  // what cannot be compiled, and on what is too large or too deep.
  Result<std::shared_ptr<const CompiledGrammar>> compile(const GrammarSpec& spec) const;

  // A constraint at the start of an answer. `after_reasoning`: it begins after </think>, or with a
  // <tool_call> where the grammar is of calls; until then every token may come. Stop ids may come
  // where the grammar is complete. Special tokens never come.
  std::shared_ptr<TokenConstraint> constrain(std::shared_ptr<const CompiledGrammar> grammar,
                                             bool after_reasoning) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Masks a fixed set of tokens always (tool_choice none: <tool_call>), around another constraint or
// none.
std::shared_ptr<TokenConstraint> forbid_tokens(std::vector<TokenId> ids,
                                               std::shared_ptr<TokenConstraint> inner = {});

}  // namespace glint
