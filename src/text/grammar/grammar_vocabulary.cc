#include "text/grammar/grammar_vocabulary.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "base/contains.h"
#include "text/answer/tool_parser.h"

namespace glint {
namespace {

void write(std::string& out, std::int32_t number) {
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  out.append(bytes, sizeof number);
}

void write(std::string& out, const std::vector<TokenId>& ids) {
  write(out, static_cast<std::int32_t>(ids.size()));
  for (const TokenId id : ids) write(out, id);
}

std::vector<TokenId> list_of(const std::optional<TokenId>& id) {
  return id ? std::vector<TokenId>{*id} : std::vector<TokenId>{};
}

std::optional<TokenId> first_of(const std::vector<TokenId>& ids) {
  return ids.empty() ? std::nullopt : std::optional(ids[0]);
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  // False, and so on from here, if the bytes do not have it.
  bool read(std::int32_t& number) {
    if (left_.size() < sizeof number) return false;
    std::memcpy(&number, left_.data(), sizeof number);
    left_.remove_prefix(sizeof number);
    return number >= 0;
  }
  bool read(std::string& text) {
    std::int32_t size = 0;
    if (!read(size) || left_.size() < static_cast<std::size_t>(size)) return false;
    text = left_.substr(0, static_cast<std::size_t>(size));
    left_.remove_prefix(text.size());
    return true;
  }
  template <class T>
  bool read(std::vector<T>& items) {
    std::int32_t size = 0;
    if (!read(size) || left_.size() / sizeof size < static_cast<std::size_t>(size)) return false;
    items.resize(static_cast<std::size_t>(size));
    return std::all_of(items.begin(), items.end(), [&](T& item) { return read(item); });
  }
  bool at_end() const { return left_.empty(); }

 private:
  std::string_view left_;
};

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
  std::string out;
  write(out, vocabulary.size());
  for (const std::string& text : vocabulary.texts) {
    write(out, static_cast<std::int32_t>(text.size()));
    out += text;
  }
  write(out, vocabulary.markers);
  write(out, vocabulary.stop_ids);
  write(out, list_of(vocabulary.end_think));
  write(out, list_of(vocabulary.tool_call));
  return out;
}

Result<GrammarVocabulary> vocabulary_of(std::string_view bytes) {
  GrammarVocabulary out;
  std::vector<TokenId> end_think, tool_call;
  Reader reader(bytes);
  const bool ok = reader.read(out.texts) && reader.read(out.markers) && reader.read(out.stop_ids) &&
                  reader.read(end_think) && reader.read(tool_call) && reader.at_end();
  if (!ok) return invalid("this is no vocabulary that to_bytes() wrote");
  out.end_think = first_of(end_think);
  out.tool_call = first_of(tool_call);
  return out;
}

}  // namespace glint
