#include "text/tokenizer/pretokenizer.h"

#include <algorithm>

#include "base/str.h"

namespace glint {
namespace {

constexpr std::size_t kMaxSplits = 64;

// The patterns as tokenizer.json files hold them, but for line ends, which some hold as characters.
// Each means the same to PCRE2 as to Oniguruma, but for \s and \S.
#define GLINT_AFTER_LETTERS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define GLINT_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define GLINT_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define GLINT_BLANKS "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
constexpr std::string_view kGlm = GLINT_AFTER_LETTERS
    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" GLINT_BLANKS;
constexpr std::string_view kQwen = GLINT_AFTER_LETTERS
    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" GLINT_BLANKS;
constexpr std::string_view kQwen35 = GLINT_AFTER_LETTERS
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
    "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" GLINT_BLANKS;
constexpr std::string_view kDeepseekDigits = "\\p{N}{1,3}";
constexpr std::string_view kDeepseekHan =
    "[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+";
constexpr std::string_view kDeepseekWords =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
    "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*" GLINT_BLANKS;
constexpr std::string_view kCl100k =
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}"
    "| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+";
constexpr std::string_view kO200k =
    "[^\\r\\n\\p{L}\\p{N}]?" GLINT_UPPER "*" GLINT_LOWER "+" GLINT_AFTER_LETTERS
    "?|[^\\r\\n\\p{L}\\p{N}]?" GLINT_UPPER "+" GLINT_LOWER "*" GLINT_AFTER_LETTERS
    "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" GLINT_BLANKS;
constexpr std::string_view kPatterns[] = {kGlm,         kQwen,          kQwen35, kDeepseekDigits,
                                          kDeepseekHan, kDeepseekWords, kCl100k, kO200k};
constexpr std::string_view kFamilies =
    "those of GLM, Llama 3, Qwen, DeepSeek-V3, GPT-2, cl100k and o200k";

// ByteLevel's own, which the file does not hold.
constexpr std::string_view kGpt2 =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

std::string with_escaped_line_ends(std::string_view pattern) {
  std::string out;
  for (const char c : pattern) {
    if (c == '\r' || c == '\n') {
      out += c == '\r' ? "\\r" : "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

Regex compiled(std::string_view known) {
  std::string pattern;
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (known[i] != '\\') {
      pattern += known[i];
    } else if (const char letter = known[++i]; letter == 's' || letter == 'S') {
      pattern += letter == 's' ? "\\p{White_Space}" : "\\P{White_Space}";
    } else {
      pattern.append({'\\', letter});
    }
  }
  return Regex::compile(pattern).value();
}

}  // namespace

Result<Pretokenizer> Pretokenizer::parse(const Json& json) {
  Pretokenizer pretokenizer;
  GLINT_TRY_STATUS(pretokenizer.parse_step(json, "pre_tokenizer", 0));
  if (!pretokenizer.ends_) return unsupported("pre_tokenizer: its last step is not ByteLevel");
  return pretokenizer;
}

Status Pretokenizer::parse_step(const Json& json, const std::string& where, int depth) {
  if (ends_) return unsupported(where + ": a step after ByteLevel");
  if (splits_.size() == kMaxSplits)
    return invalid(str(where, ": more than ", kMaxSplits, " splits"));
  Fields fields(json, where);
  const std::string type = fields.text("type");
  if (type == "Sequence") {
    return parse_sequence(fields, "pretokenizers", depth,
                          [this](const Json& step, const std::string& at, int below) {
                            return parse_step(step, at, below);
                          });
  }
  if (type == "Split") return parse_split(fields);
  if (type == "ByteLevel") return parse_byte_level(fields);
  return fields.unknown_type(type, "Sequence, Split, ByteLevel");
}

Status Pretokenizer::parse_split(Fields& fields) {
  const std::string& where = fields.where();
  const Json& pattern = fields.value("pattern");
  const std::string behavior = fields.text("behavior");
  const bool invert = fields.flag("invert");
  GLINT_TRY_STATUS(fields.done());
  Fields inner(pattern, where + ".pattern");
  const std::string text = inner.text("Regex");
  GLINT_TRY_STATUS(inner.done());
  const auto* known =
      std::find(std::begin(kPatterns), std::end(kPatterns), with_escaped_line_ends(text));
  if (known == std::end(kPatterns)) {
    return unsupported(
        str(where, ".pattern: unknown pattern ", quoted(text), "; glint knows ", kFamilies));
  }
  if (behavior != "Isolated" && !(behavior == "Removed" && invert)) {
    return unsupported(str(where, ": unsupported behavior ", quoted(behavior),
                           "; glint knows Isolated, and Removed with invert"));
  }
  splits_.push_back({compiled(*known), behavior == "Isolated"});
  return Ok{};
}

Status Pretokenizer::parse_byte_level(Fields& fields) {
  fields.skip({"trim_offsets"});  // offsets are not reported
  if (fields.flag("add_prefix_space"))
    fields.fail("\"add_prefix_space\" is true; only false is supported");
  if (fields.flag_or("use_regex", true)) splits_.push_back({compiled(kGpt2), true});
  ends_ = true;
  return fields.done();
}

struct Pretokenizer::Run {
  const std::vector<Split>& splits;
  Regex::Scratch& scratch;
  const WordSink& sink;
  bool gave_up = false;

  // Sends `text` (not empty) through the splits from `i` on.
  void piece(std::size_t i, std::string_view text) {
    if (i == splits.size()) return sink(text);
    std::size_t done = 0;
    for (Regex::Match match; !gave_up && done < text.size(); done = match.end) {
      const Regex::Outcome outcome = splits[i].regex.find(text, done, match, scratch);
      gave_up |= outcome == Regex::Outcome::kGaveUp;
      if (outcome != Regex::Outcome::kMatch) match = {text.size(), text.size()};
      if (done < match.begin && splits[i].keeps_rest)
        piece(i + 1, text.substr(done, match.begin - done));
      if (match.begin < match.end) piece(i + 1, text.substr(match.begin, match.end - match.begin));
    }
  }
};

Status Pretokenizer::split(std::string_view text, Regex::Scratch& scratch,
                           const WordSink& sink) const {
  Run run{splits_, scratch, sink};
  run.piece(0, text);
  if (run.gave_up) {
    return invalid(str("the pre_tokenizer's pattern gave up on a text of ", text.size(), " bytes"));
  }
  return Ok{};
}

}  // namespace glint
