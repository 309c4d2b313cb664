// Grammar: structured output. What a request asks for (a JSON schema, a regular expression, EBNF, a
// choice, tool calls in GLM's own format) is compiled once into something from which each sequence
// gets a TokenConstraint. Wraps xgrammar, which only grammar.cc includes.
//
// Compiling takes as long, and as much memory, as its author likes: a server has a GrammarService
// (grammar_service.h) do it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/token_constraint.h"
#include "text/grammar/grammar_spec.h"
#include "text/grammar/grammar_vocabulary.h"

namespace glint {

class CompiledGrammar;  // const; threads may share one

std::size_t memory_bytes(const CompiledGrammar& grammar);

class GrammarCompiler {
 public:
  explicit GrammarCompiler(const GrammarVocabulary& vocabulary);
  ~GrammarCompiler();

  // From any thread. Fails with the reason, in one sentence, on what cannot be compiled, and on
  // what is too large or too deep.
  Result<std::shared_ptr<const CompiledGrammar>> compile(const GrammarSpec& spec) const;

  // Between compilers of the same vocabulary. load() fails on bytes that dump() did not write.
  std::string dump(const CompiledGrammar& grammar) const;
  Result<std::shared_ptr<const CompiledGrammar>> load(std::string_view bytes) const;

  // A constraint at the start of an answer. `after_reasoning`: it begins after </think>, or with a
  // <tool_call> where the grammar is of calls; until then every token may come but stop ids, which
  // may come where the grammar is complete. Special tokens never come in it.
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
