// The "normalizer" of a tokenizer.json: what happens to text before it is split into words.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/tokenizer/pretokenizer_regex.h"
#include "text/tokenizer/unicode.h"

namespace glint {

class GrowthLimit;

class Normalizer {
 public:
  // Null is the normalizer that changes nothing. Fails with the name of what is not supported.
  static Result<Normalizer> parse(const Json& json);

  bool is_identity() const { return steps_.empty(); }

  // Replaces `text` (valid UTF-8). `start` is how many of its first bytes come from the first
  // character of the whole input, before and after. Fails only if a pattern of the file gives up on
  // it.
  Status apply(std::string& text, std::size_t& start, Regex::Scratch& scratch) const;

 private:
  struct Prepend {
    std::string text;
  };
  struct Replace {
    Regex regex;
    std::string content;
  };
  struct ByteLevel {};
  using Step = std::variant<Prepend, Replace, NormalForm, ByteLevel>;

  Status parse_step(const Json& json, const std::string& where, int depth, GrowthLimit& growth);

  std::vector<Step> steps_;
};

// {"Regex": ...} or {"String": ...}, as normalizers, pre-tokenizers and decoders write patterns.
Result<Regex> parse_pattern(const Json& json, const std::string& where);

// Steps one after another could make a text as long as an attacker likes: by how much they may
// lengthen it, all of them together.
class GrowthLimit {
 public:
  // A step, at `where`, that makes texts at most `factor` times as long.
  Status add(std::size_t factor, const std::string& where);

 private:
  std::size_t factor_ = 1;
};

// That factor where `content` is put for each match of `pattern` ({"String": ...} or {"Regex":
// ...}).
std::size_t growth_of_replacing(const Json& pattern, std::string_view content);

// `text` with every match of `regex` replaced by `content`, which comes from where the last
// character of the match did (`start` as above); false if the search gave up.
bool replace_matches(std::string& text, const Regex& regex, std::string_view content,
                     std::size_t& start, Regex::Scratch& scratch);

}  // namespace glint
