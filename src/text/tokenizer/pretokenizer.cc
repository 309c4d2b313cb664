#include "text/tokenizer/pretokenizer.h"

#include "base/str.h"
#include "text/tokenizer/tokenizer_bytes.h"
#include "text/tokenizer/unicode.h"

namespace glint {
namespace {

constexpr std::size_t kMaxSteps = 64;
constexpr std::string_view kKnown =
    "Sequence, Split, ByteLevel, Digits, Punctuation, Metaspace, Whitespace, WhitespaceSplit, "
    "BertPreTokenizer, CharDelimiterSplit, FixedLength";

constexpr std::string_view kGpt2 =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\p{White_Space}\\p{L}\\p{N}]+"
    "|\\p{White_Space}+(?!\\P{White_Space})|\\p{White_Space}+";
// \w of Rust's regex crate.
constexpr std::string_view kWords =
    "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}]+"
    "|[^\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}\\p{White_Space}]+";

// Punctuation as `tokenizers` knows it: ASCII's and that of Unicode 8, less what came later.
constexpr std::string_view kPunctuation =
    "(?![\\x{61D}\\x{9FD}\\x{A76}\\x{C77}\\x{C84}\\x{1B4E}\\x{1B4F}\\x{1B7D}-\\x{1B7F}"
    "\\x{2E43}-\\x{2E4F}\\x{2E52}-\\x{2E5D}\\x{10D6E}\\x{10EAD}\\x{10F55}-\\x{10F59}"
    "\\x{10F86}-\\x{10F89}\\x{113D4}\\x{113D5}\\x{113D7}\\x{113D8}\\x{1144B}-\\x{1144F}"
    "\\x{1145A}\\x{1145B}\\x{1145D}\\x{11660}-\\x{1166C}\\x{116B9}\\x{1183B}"
    "\\x{11944}-\\x{11946}\\x{119E2}\\x{11A3F}-\\x{11A46}\\x{11A9A}-\\x{11A9C}"
    "\\x{11A9E}-\\x{11AA2}\\x{11B00}-\\x{11B09}\\x{11BE1}\\x{11C41}-\\x{11C45}\\x{11C70}"
    "\\x{11C71}\\x{11EF7}\\x{11EF8}\\x{11F43}-\\x{11F4F}\\x{11FFF}\\x{12FF1}\\x{12FF2}"
    "\\x{16D6D}-\\x{16D6F}\\x{16E97}-\\x{16E9A}\\x{16FE2}\\x{1E5FF}\\x{1E95E}\\x{1E95F}])"
    "[!-/:-@\\[-`{-~\\p{P}\\x{166D}\\x{111C9}]";

}  // namespace

Result<Pretokenizer> Pretokenizer::parse(const Json& json) {
  Pretokenizer pretokenizer;
  if (json.is_null()) return pretokenizer;
  GrowthLimit growth;
  GLINT_TRY_STATUS(pretokenizer.parse_step(json, "pre_tokenizer", 0, growth));
  std::vector<Step>& steps = pretokenizer.steps_;
  if (!steps.empty() && std::holds_alternative<ByteLetters>(steps.back())) {
    steps.pop_back();
    pretokenizer.gives_bytes_ = true;
  }
  return pretokenizer;
}

Status Pretokenizer::parse_step(const Json& json, const std::string& where, int depth,
                                GrowthLimit& growth) {
  if (steps_.size() > kMaxSteps) return invalid(str(where, ": more than ", kMaxSteps, " steps"));
  Fields fields(json, where);
  const std::string type = fields.text("type");
  if (type == "Sequence") {
    return parse_sequence(fields, "pretokenizers", depth,
                          [this, &growth](const Json& step, const std::string& at, int below) {
                            return parse_step(step, at, below, growth);
                          });
  }
  if (type == "Split") return parse_split(fields);
  if (type == "ByteLevel") return parse_byte_level(fields, growth);
  if (type == "Metaspace") return parse_metaspace(fields, growth);
  if (type == "Digits") {
    add_split("\\p{N}",
              fields.flag("individual_digits") ? Behavior::kIsolated : Behavior::kContiguous,
              /*invert=*/false);
  } else if (type == "Whitespace") {
    add_split(kWords, Behavior::kRemoved, /*invert=*/true);
  } else if (type == "WhitespaceSplit" || type == "BertPreTokenizer") {
    add_split("\\p{White_Space}", Behavior::kRemoved, /*invert=*/false);
    if (type == "BertPreTokenizer") add_split(kPunctuation, Behavior::kIsolated, /*invert=*/false);
  } else if (type == "Punctuation") {
    GLINT_TRY(const Behavior behavior,
              parse_behavior(fields.text_or("behavior", "Isolated"), where));
    add_split(kPunctuation, behavior, /*invert=*/false);
  } else if (type == "CharDelimiterSplit") {
    const std::string delimiter = fields.text("delimiter");
    if (!delimiter.empty()) {
      GLINT_TRY(Regex regex, Regex::from_literal(delimiter));
      steps_.push_back(Split{std::move(regex), Behavior::kRemoved, false});
    } else {
      fields.fail("\"delimiter\" is empty where a character belongs");
    }
  } else if (type == "FixedLength") {
    constexpr std::int64_t kMax = 65535;  // PCRE2's longest repetition
    const bool given = json.find("length") != nullptr;
    const std::int64_t length = given ? fields.integer("length", 1, kMax) : 5;
    add_split(str("(?s:.{1,", length, "})"), Behavior::kIsolated, /*invert=*/false);
  } else {
    return fields.unknown_type(type, kKnown);
  }
  return fields.done();
}

void Pretokenizer::add_split(std::string_view pcre2_pattern, Behavior behavior, bool invert) {
  steps_.push_back(Split{Regex::from_pcre2(pcre2_pattern).value(), behavior, invert});
}

Status Pretokenizer::parse_split(Fields& fields) {
  const Json& pattern = fields.value("pattern");
  const std::string behavior_name = fields.text("behavior");
  const bool invert = fields.flag("invert");
  GLINT_TRY_STATUS(fields.done());
  GLINT_TRY(const Behavior behavior, parse_behavior(behavior_name, fields.where()));
  GLINT_TRY(Regex regex, parse_pattern(pattern, fields.where() + ".pattern"));
  steps_.push_back(Split{std::move(regex), behavior, invert});
  return Ok{};
}

Result<Pretokenizer::Behavior> Pretokenizer::parse_behavior(const std::string& name,
                                                            const std::string& where) {
  if (name == "Removed") return Behavior::kRemoved;
  if (name == "Isolated") return Behavior::kIsolated;
  if (name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behavior::kMergedWithNext;
  if (name == "Contiguous") return Behavior::kContiguous;
  return invalid(str(where, ": unknown behavior ", quoted(name)));
}

Status Pretokenizer::parse_byte_level(Fields& fields, GrowthLimit& growth) {
  fields.skip({"trim_offsets"});  // we report no offsets
  const bool prefix_space = fields.flag("add_prefix_space");
  if (prefix_space) steps_.push_back(PrefixSpace{});
  if (fields.flag_or("use_regex", true)) add_split(kGpt2, Behavior::kIsolated, /*invert=*/false);
  steps_.push_back(ByteLetters{});
  GLINT_TRY_STATUS(growth.add(prefix_space ? 4 : 2, fields.where()));
  return fields.done();
}

Status Pretokenizer::parse_metaspace(Fields& fields, GrowthLimit& growth) {
  const std::string& where = fields.where();
  fields.skip({"str_rep"});  // older files repeat the replacement
  Metaspace step{fields.text("replacement"), Metaspace::kAlways};
  const std::string scheme = fields.text_or("prepend_scheme", "always");
  const bool prefix_space = fields.flag_or("add_prefix_space", true);
  const bool split = fields.flag_or("split", true);
  GLINT_TRY_STATUS(fields.done());
  std::size_t character = 0;
  if (!step.replacement.empty()) next_code_point(step.replacement, character);
  if (character == 0 || character != step.replacement.size()) {
    return invalid(
        str(where, ": the replacement ", quoted(step.replacement), " is not one character"));
  }
  if (scheme == "first") {
    step.prepend = Metaspace::kFirst;
  } else if (scheme == "never") {
    step.prepend = Metaspace::kNever;
  } else if (scheme != "always") {
    return invalid(str(where, ": unknown prepend_scheme ", quoted(scheme)));
  }
  if (!prefix_space && step.prepend != Metaspace::kNever) {
    return invalid(
        str(where, ": add_prefix_space false contradicts prepend_scheme ", quoted(scheme)));
  }
  GLINT_TRY_STATUS(growth.add(1 + step.replacement.size(), where));
  GLINT_TRY(Regex regex, Regex::from_literal(step.replacement));
  steps_.push_back(std::move(step));
  if (split) steps_.push_back(Split{std::move(regex), Behavior::kMergedWithNext, false});
  return Ok{};
}

struct Pretokenizer::Run {
  const std::vector<Step>& steps;
  Regex::Scratch& scratch;
  WordSink& sink;
  bool gave_up = false;

  // Sends `piece` through the steps from `i` on. `start`: see Pretokenizer::split.
  void piece(std::size_t i, std::string_view piece, std::size_t start) {
    if (piece.empty() || gave_up) return;
    if (i == steps.size()) return sink.word(piece);
    if (const auto* split = std::get_if<Split>(&steps[i])) {
      switch (split->behavior) {
        case Behavior::kRemoved:
        case Behavior::kIsolated:
          return cut(i, *split, piece, start);
        default:
          return cut_and_merge(i, *split, piece, start);
      }
    }
    if (std::holds_alternative<PrefixSpace>(steps[i])) {
      if (piece.front() == ' ') return this->piece(i + 1, piece, start);
      return this->piece(i + 1, std::string(1, ' ').append(piece), start > 0 ? start + 1 : 0);
    }
    if (const auto* metaspace = std::get_if<Metaspace>(&steps[i])) {
      const std::string text = with_metaspace(*metaspace, piece, start);
      return this->piece(i + 1, text, start);
    }
    this->piece(i + 1, bytes_to_letters(piece), bytes_to_letters(piece.substr(0, start)).size());
  }

  // Moves `start` along.
  static std::string with_metaspace(const Metaspace& step, std::string_view piece,
                                    std::size_t& start) {
    std::string text;
    const bool starts =
        piece.front() == ' ' || piece.substr(0, step.replacement.size()) == step.replacement;
    if (!starts &&
        (step.prepend == Metaspace::kAlways || (step.prepend == Metaspace::kFirst && start > 0))) {
      text += step.replacement;
    }
    std::size_t new_start = start > 0 ? text.size() : 0;
    for (std::size_t at = 0; at < piece.size(); ++at) {
      if (piece[at] == ' ') {
        text += step.replacement;
      } else {
        text += piece[at];
      }
      if (at < start) new_start = text.size();
    }
    start = new_start;
    return text;
  }

  static std::size_t start_from(std::size_t begin, std::size_t start) {
    return start > begin ? start - begin : 0;
  }

  void cut(std::size_t i, const Split& split, std::string_view text, std::size_t start) {
    const bool removes = split.behavior == Behavior::kRemoved;
    std::size_t done = 0;
    const auto emit = [&](std::size_t begin, std::size_t end, bool is_match) {
      if (removes && is_match != split.invert) return;
      piece(i + 1, text.substr(begin, end - begin), start_from(begin, start));
    };
    const bool ok =
        for_each_match(split.regex, text, scratch, [&](std::size_t begin, std::size_t end) {
          if (done < begin) emit(done, begin, false);
          emit(begin, end, true);
          done = end;
        });
    gave_up |= !ok;
    if (done < text.size()) emit(done, text.size(), false);
  }

  struct Part {
    std::size_t begin, end;
    bool is_match;
  };

  void cut_and_merge(std::size_t i, const Split& split, std::string_view text, std::size_t start) {
    std::vector<Part> parts;
    std::size_t done = 0;
    const bool ok =
        for_each_match(split.regex, text, scratch, [&](std::size_t begin, std::size_t end) {
          if (done < begin) parts.push_back({done, begin, split.invert});
          parts.push_back({begin, end, !split.invert});
          done = end;
        });
    gave_up |= !ok;
    if (done < text.size()) parts.push_back({done, text.size(), split.invert});
    for (const Part& part : merge(parts, split.behavior)) {
      piece(i + 1, text.substr(part.begin, part.end - part.begin), start_from(part.begin, start));
    }
  }

  static std::vector<Part> merge(const std::vector<Part>& parts, Behavior behavior) {
    std::vector<Part> merged;
    bool previous = false;
    if (behavior == Behavior::kMergedWithNext) {
      for (std::size_t k = parts.size(); k-- > 0;) {
        const Part& part = parts[k];
        if (part.is_match && !previous && !merged.empty()) {
          merged.back().begin = part.begin;
        } else {
          merged.push_back(part);
        }
        previous = part.is_match;
      }
      return {merged.rbegin(), merged.rend()};
    }
    for (const Part& part : parts) {
      const bool joins = behavior == Behavior::kContiguous ? part.is_match == previous
                                                           : part.is_match && !previous;
      if (joins && !merged.empty()) {
        merged.back().end = part.end;
      } else {
        merged.push_back(part);
      }
      previous = part.is_match;
    }
    return merged;
  }
};

Status Pretokenizer::split(std::string_view text, std::size_t start, Regex::Scratch& scratch,
                           WordSink& sink) const {
  Run run{steps_, scratch, sink};
  run.piece(0, text, start);
  if (run.gave_up) {
    return invalid(str("the pre_tokenizer's pattern gave up on a text of ", text.size(), " bytes"));
  }
  return Ok{};
}

}  // namespace glint
