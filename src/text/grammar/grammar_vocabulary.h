// GrammarVocabulary: how the tokens of a model are spelled, as far as grammars need to know. It can
// be handed to another process of this program.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "text/tokenizer/tokenizer.h"

namespace glint {

struct GrammarVocabulary {
  // By id, as many as the model has. Special tokens and those that no text is made of have none: no
  // grammar matches them.
  std::vector<std::string> texts = {};
  std::vector<TokenId> markers = {};   // of tool calls
  std::vector<TokenId> stop_ids = {};  // may come where a grammar is complete
  std::optional<TokenId> end_think = {}, tool_call = {};

  int size() const { return static_cast<int>(texts.size()); }
  bool operator==(const GrammarVocabulary&) const = default;
};

// `vocab_size` is the model's, which may be larger than the tokenizer's; every stop id is below it.
GrammarVocabulary read_vocabulary(const Tokenizer& tokenizer, int vocab_size,
                                  std::vector<TokenId> stop_ids);

std::string to_bytes(const GrammarVocabulary& vocabulary);
// Fails on what to_bytes() did not write.
Result<GrammarVocabulary> vocabulary_of(std::string_view bytes);

}  // namespace glint
