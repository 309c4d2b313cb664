#include "text/grammar/grammar_vocabulary.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/check.h"
#include "base/contains.h"
#include "text/answer/tool_parser.h"

namespace glint {

namespace {

constexpr TokenId kNone = -1;  // no token, as bytes

}  // namespace

GrammarVocabulary read_vocabulary(const Tokenizer& tokenizer, int vocab_size,
                                  std::vector<TokenId> stop_ids) {
  GrammarVocabulary to = {.texts = std::vector<std::string>(static_cast<std::size_t>(vocab_size)),
                          .stop_ids = std::move(stop_ids),
                          .end_think = tokenizer.token_to_id("</think>"),
                          .tool_call = tokenizer.token_to_id("<tool_call>")};
  for (const TokenId id : to.stop_ids)
    GLINT_CHECK(id >= 0 && id < vocab_size, "a stop token outside the vocabulary");
  for (const std::string_view marker : kToolMarkers) {
    if (const auto id = tokenizer.token_to_id(marker); id && *id < vocab_size)
      to.markers.push_back(*id);
  }
  for (TokenId id = 0; id < std::min(tokenizer.vocab_size(), vocab_size); ++id)
    to.texts[static_cast<std::size_t>(id)] = tokenizer.token_bytes(id);
  for (const AddedToken& token : tokenizer.added_tokens()) {
    const bool is_marker = contains(to.markers, token.id);
    if (token.id < vocab_size && !is_marker) to.texts[static_cast<std::size_t>(token.id)].clear();
  }
  return to;
}

std::string to_bytes(const GrammarVocabulary& vocabulary) {
  ByteWriter write;
  write.each(vocabulary.texts, write);
  write(vocabulary.markers, vocabulary.stop_ids, vocabulary.end_think.value_or(kNone),
        vocabulary.tool_call.value_or(kNone));
  return write.take();
}

Result<GrammarVocabulary> vocabulary_of(std::string_view bytes) {
  GrammarVocabulary out;
  TokenId end_think = kNone, tool_call = kNone;
  ByteReader read(bytes);
  read.each(out.texts, read);
  read(out.markers, out.stop_ids, end_think, tool_call);
  if (!read.is_whole()) return invalid("this is no vocabulary that to_bytes() wrote");
  if (end_think != kNone) out.end_think = end_think;
  if (tool_call != kNone) out.tool_call = tool_call;
  return out;
}

}  // namespace glint
