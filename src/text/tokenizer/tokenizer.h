// The tokenizer of a checkpoint, from its tokenizer.json: text to tokens and back, token for token
// what the `tokenizers` package gives. It reads byte-level BPE with the patterns of GLM, Llama 3,
// Qwen, DeepSeek-V3, GPT-2, cl100k and o200k; another file is refused, with the part by name.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "text/tokenizer/tokenizer_added.h"

namespace glint {

struct EncodeOptions {
  bool add_special_tokens = false;  // what the file's post_processor puts around a text
  // Whether added tokens (<|user|>, <think> ...) in the text are those tokens. false: they are
  // letters like any other, for text that a user wrote.
  bool parse_special = true;
  // Left out of the words, after added tokens were found: within the name of one it makes that
  // text. Empty: nothing.
  std::string_view removed = {};
  // Asked from time to time; once it says yes, encoding fails. Empty: nobody asks.
  std::function<bool()> cancelled = {};
  // Longer runs without a break between words are refused: merging one takes some 60 times its
  // bytes.
  std::size_t max_word_bytes = std::numeric_limits<std::size_t>::max();
};

// Const after construction: threads may share one.
class Tokenizer {
 public:
  // A tokenizer.json, or a directory that holds one, and perhaps a tokenizer_config.json, whose
  // add_bos_token and add_eos_token then replace what the former puts around texts.
  static Result<Tokenizer> open(const std::string& path);
  static Result<Tokenizer> parse(std::string_view json);

  // Bytes that are not UTF-8 count as U+FFFD (unicode.h). Fails only if a pattern backtracks for
  // too long, or as the options say.
  Result<std::vector<TokenId>> encode(std::string_view text,
                                      const EncodeOptions& options = {}) const;

  // Invalid UTF-8 becomes U+FFFD; ids outside the vocabulary are left out, special tokens if
  // `skip_special`. For tokens that arrive one at a time see detokenizer.h.
  std::string decode(std::span<const TokenId> ids, bool skip_special = false) const;

  // One more than the largest id.
  TokenId vocab_size() const;

  // Equal where each id is the same token.
  std::string vocabulary_checksum() const;

  std::optional<std::string_view> id_to_token(TokenId id) const;
  // The bytes that a token stands for, which may be a part of a character; empty if it has none.
  std::string token_bytes(TokenId id) const;
  std::optional<TokenId> token_to_id(std::string_view token) const;
  bool is_special(TokenId id) const;
  const std::vector<AddedToken>& added_tokens() const;

 private:
  struct Parts;
  static Result<std::shared_ptr<Parts>> parse_parts(std::string_view json);
  explicit Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

  // The text of `id` and the bytes that it stands for; nothing if the token is left out.
  std::optional<std::string_view> decoded_token(TokenId id, bool skip_special) const;
  std::string decoded_bytes(TokenId id, bool skip_special) const;

  std::shared_ptr<const Parts> parts_;
};

}  // namespace glint
