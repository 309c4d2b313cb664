// The "decoder" of a tokenizer.json: from the texts of tokens back to text, a token at a time.
// Whole decoding and streaming are the same code, so they cannot disagree.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/pretokenizer_regex.h"

namespace glint {

class Decoder {
 public:
  // Null joins tokens with blanks. Fails with the name of what is not supported.
  static Result<Decoder> parse(const Json& json);

  // The bytes that `token` stands for in the middle of a text: what decoding makes of it, but for
  // characters that it begins or ends in the middle.
  std::string bytes(std::string_view token) const;

  // The state of one text being decoded. The decoder must outlive it.
  class Stream {
   public:
    explicit Stream(const Decoder& decoder);

    void add(std::string_view token) { send(0, token); }
    void finish();

    // The text that became certain since the last call: no later token can change it. Valid UTF-8.
    std::string take() { return std::exchange(out_, {}); }

   private:
    struct State {
      std::string held;      // what later tokens may still change
      std::size_t seen = 0;  // tokens, or for Strip characters taken off
    };

    void send(std::size_t i, std::string_view text);
    void end(std::size_t i);
    void transform(std::size_t i, std::string_view token);
    void byte_fallback(std::size_t i, std::string_view token);
    void flush_bytes(std::size_t i);

    const Decoder& decoder_;
    std::vector<State> states_;
    std::string out_;
    Regex::Scratch scratch_;
  };

 private:
  enum class Kind {
    kJoinWithBlanks,
    kReplace,
    kByteFallback,
    kFuse,
    kStrip,
    kByteLevel,
    kMetaspace,
    kWordPiece,
    kWordEnds
  };
  struct Step {
    Kind kind;
    bool after_fuse = false;  // what arrives are parts of one token
    std::vector<Regex> pattern = {};
    // The new text of Replace; the character of Strip and Metaspace, the prefix of WordPiece, the
    // suffix of BPEDecoder.
    std::string content = {};
    std::size_t start = 0, stop = 0;
    bool prepended = false;  // Metaspace: the first token's were added by encoding
    bool cleanup = false;    // WordPiece: no blanks before punctuation
  };

  Status parse_step(const Json& json, const std::string& where, int depth, GrowthLimit& growth);
  void add(Step step);

  std::vector<Step> steps_;
};

}  // namespace glint
