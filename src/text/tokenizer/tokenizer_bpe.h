// Byte-pair encoding, the "model" of a tokenizer.json: a word becomes its bytes' tokens, then the
// pair of neighbours with the lowest rank is merged, the leftmost first, until no pair can be.
//
// Most words of ordinary text are the text of a token that encodes to itself and cost one lookup.
// Whether a token does is found out when it is first met, and remembered in a byte of its own;
// other words are remembered for one call.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/types.h"
#include "text/tokenizer/tokenizer_vocab.h"

namespace glint {

class Bpe {
 public:
  static constexpr TokenId kMaxId = (1 << 21) - 1;  // eight times the largest vocabulary served

  // The vocabulary holds the byte alphabet (tokenizer_bytes.h): no text is unknown. Fails naming
  // the part of `model`.
  static Result<Bpe> parse(const Json& model);

  // Memory of one thread's calls.
  struct Symbol {
    TokenId id;
    std::int32_t prev, next;  // -1 at the ends; next is -2 when merged into another
  };
  struct Candidate {
    std::uint32_t rank;
    std::int32_t position;
    TokenId merged;
  };
  struct Scratch {
    std::vector<TokenId> ids;
    std::vector<std::uint32_t> ranks;
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
    TextTable words;  // encoded already, and where in `encoded` that is
    std::vector<std::pair<std::uint32_t, std::uint32_t>> spans;
    std::vector<TokenId> encoded;
  };

  // Appends the tokens of `word`.
  void encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const;

  TokenId find(std::string_view token) const { return vocab_.find(token); }  // -1 if there is none
  std::size_t size() const { return vocab_.size(); }

  // The tokens' texts by id; nothing where the vocabulary has no such id.
  const std::vector<std::optional<std::string>>& texts() const { return texts_; }

 private:
  struct Merge {
    std::uint64_t pair = kNoPair;  // left id << 32 | right id
    std::uint32_t rank = 0;
    TokenId merged = 0;
  };
  static constexpr std::uint64_t kNoPair = ~std::uint64_t{0};
  static constexpr std::uint32_t kNoRank = ~std::uint32_t{0};

  Status parse_options(const Json& model);
  Status parse_vocab(const Json::Object& vocab);
  Status parse_merges(const Json::Array& merges);
  Status parse_merge(const Json& merge, std::uint32_t rank, std::string& text);
  void insert_merge(std::uint64_t pair, std::uint32_t rank, TokenId merged);
  const Merge* find_merge(TokenId left, TokenId right) const;
  void index_words();

  bool is_whole(TokenId id, std::string_view word, Scratch& scratch) const;
  void merge_word(std::string_view word, Scratch& scratch) const;  // to scratch.ids

  void merge_short(Scratch& scratch) const;
  void merge_long(Scratch& scratch) const;

  TextTable vocab_;
  std::vector<std::optional<std::string>> texts_;
  std::vector<Merge> merges_;  // a hash table of a power of two, at most half full
  int merges_shift_ = 0;
  TextTable words_;  // the tokens' texts as `encode` gets words
  enum : std::uint8_t { kUnknown, kWhole, kParts };
  // By id: whether the token's own text becomes that token.
  std::unique_ptr<std::atomic<std::uint8_t>[]> whole_;
  TokenId byte_ids_[256];  // of the letters of single bytes
  bool ignore_merges_ = false;
};

}  // namespace glint
