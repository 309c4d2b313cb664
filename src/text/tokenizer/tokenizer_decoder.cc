#include "text/tokenizer/tokenizer_decoder.h"

#include <algorithm>

#include "base/str.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/tokenizer_bytes.h"
#include "text/tokenizer/tokenizer_fields.h"
#include "text/tokenizer/unicode.h"

namespace glint {
namespace {

constexpr std::size_t kMaxSteps = 64;
constexpr std::string_view kKnown =
    "Sequence, ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace, BPEDecoder, WordPiece";
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// The byte that a token like "<0x0A>" stands for, or -1.
int fallback_byte(std::string_view token) {
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return -1;
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    // Rust's from_str_radix takes a plus sign in front.
    if (digit < 0 && !(c == '+' && &c == token.data() + 3)) return -1;
    value = value * 16 + std::max(digit, 0);
  }
  return value;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (std::size_t at; (at = text.find(from)) != text.npos;) {
    out.append(text.substr(0, at)).append(to);
    text.remove_prefix(at + from.size());
  }
  return out.append(text);
}

// WordPiece's "cleanup".
std::string without_loose_blanks(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kPairs) text = replaced(text, from, to);
  return text;
}

std::string strip(std::string_view token, std::string_view character, std::size_t start,
                  std::size_t stop) {
  for (; start > 0 && token.substr(0, character.size()) == character; --start) {
    token.remove_prefix(character.size());
  }
  for (; stop > 0 && token.size() >= character.size() &&
         token.substr(token.size() - character.size()) == character;
       --stop) {
    token.remove_suffix(character.size());
  }
  return std::string(token);
}

}  // namespace

Result<Decoder> Decoder::parse(const Json& json) {
  Decoder decoder;
  if (json.is_null()) {
    decoder.add({.kind = Kind::kJoinWithBlanks});
  } else {
    GrowthLimit growth;
    GLINT_TRY_STATUS(decoder.parse_step(json, "decoder", 0, growth));
  }
  return decoder;
}

void Decoder::add(Step step) {
  if (!steps_.empty()) {
    const Step& last = steps_.back();
    step.after_fuse = last.after_fuse || last.kind == Kind::kFuse || last.kind == Kind::kByteLevel;
  }
  steps_.push_back(std::move(step));
}

Status Decoder::parse_step(const Json& json, const std::string& where, int depth,
                           GrowthLimit& growth) {
  if (steps_.size() > kMaxSteps) return invalid(str(where, ": more than ", kMaxSteps, " steps"));
  Fields fields(json, where);
  const std::string type = fields.text("type");
  if (type == "Sequence") {
    return parse_sequence(fields, "decoders", depth,
                          [this, &growth](const Json& step, const std::string& at, int below) {
                            return parse_step(step, at, below, growth);
                          });
  }
  if (type == "ByteLevel") {  // its options are for encoding
    fields.skip({"add_prefix_space", "trim_offsets", "use_regex"});
    add({.kind = Kind::kByteLevel});
  } else if (type == "ByteFallback") {
    add({.kind = Kind::kByteFallback});
  } else if (type == "Fuse") {
    add({.kind = Kind::kFuse});
  } else if (type == "Replace") {
    const Json& pattern = fields.value("pattern");
    std::string content = fields.text("content");
    GLINT_TRY_STATUS(fields.done());
    GLINT_TRY(Regex regex, parse_pattern(pattern, where + ".pattern"));
    GLINT_TRY_STATUS(growth.add(growth_of_replacing(pattern, content), where));
    add({.kind = Kind::kReplace, .pattern = {std::move(regex)}, .content = std::move(content)});
  } else if (type == "Strip") {
    constexpr std::int64_t kMax = 1 << 20;
    add({.kind = Kind::kStrip,
         .content = fields.text("content"),
         .start = static_cast<std::size_t>(fields.integer("start", 0, kMax)),
         .stop = static_cast<std::size_t>(fields.integer("stop", 0, kMax))});
    if (steps_.back().content.empty())
      fields.fail("\"content\" is empty where a character belongs");
  } else if (type == "Metaspace") {
    fields.skip({"add_prefix_space", "split", "str_rep"});
    std::string character = fields.text("replacement");
    if (character.empty()) fields.fail("\"replacement\" is empty where a character belongs");
    add({.kind = Kind::kMetaspace,
         .content = std::move(character),
         .prepended = fields.text_or("prepend_scheme", "always") != "never"});
  } else if (type == "WordPiece") {
    add({.kind = Kind::kWordPiece,
         .content = fields.text("prefix"),
         .cleanup = fields.flag("cleanup")});
  } else if (type == "BPEDecoder") {
    add({.kind = Kind::kWordEnds, .content = fields.text("suffix")});
    if (steps_.back().content.empty()) fields.fail("\"suffix\" is empty where a text belongs");
  } else {
    return fields.unknown_type(type, kKnown);
  }
  return fields.done();
}

std::string Decoder::bytes(std::string_view token) const {
  std::string text(token);
  Regex::Scratch scratch;
  for (const Step& step : steps_) {
    if (step.kind == Kind::kByteLevel) {
      if (auto bytes = letters_to_bytes(text)) text = *std::move(bytes);
    } else if (step.kind == Kind::kByteFallback) {
      // The bytes need no more steps, and may be no text.
      if (const int byte = fallback_byte(text); byte >= 0)
        return std::string(1, static_cast<char>(byte));
    } else if (step.kind == Kind::kReplace) {
      std::size_t start = 0;
      replace_matches(text, step.pattern.front(), step.content, start, scratch);
    } else if (step.kind == Kind::kMetaspace) {
      text = replaced(text, step.content, " ");
    } else if (step.kind == Kind::kWordPiece) {
      const bool continues = text.rfind(step.content, 0) == 0;
      text = continues ? text.substr(step.content.size()) : " " + text;
    } else if (step.kind == Kind::kWordEnds) {
      text = replaced(text, step.content, " ");
    } else if (step.kind == Kind::kStrip && !step.after_fuse) {
      text = strip(text, step.content, step.start, step.stop);
    }
  }
  return text;
}

Decoder::Stream::Stream(const Decoder& decoder)
    : decoder_(decoder), states_(decoder.steps_.size()) {}

void Decoder::Stream::finish() {
  for (std::size_t i = 0; i < states_.size(); ++i) end(i);
}

void Decoder::Stream::send(std::size_t i, std::string_view text) {
  if (i == states_.size()) {
    out_ += text;
    return;
  }
  const Step& step = decoder_.steps_[i];
  State& state = states_[i];
  if (!step.after_fuse) return transform(i, text);
  if (step.kind == Kind::kFuse) return send(i + 1, text);
  if (step.kind == Kind::kStrip && step.stop == 0) {
    while (state.seen < step.start && !text.empty()) {
      if (text.substr(0, step.content.size()) != step.content) {
        state.seen = step.start;
      } else {
        text.remove_prefix(step.content.size());
        ++state.seen;
      }
    }
    return send(i + 1, text);
  }
  state.held += text;  // the step looks at the whole
}

// Applies a step to one whole token.
void Decoder::Stream::transform(std::size_t i, std::string_view token) {
  const Step& step = decoder_.steps_[i];
  State& state = states_[i];
  switch (step.kind) {
    case Kind::kJoinWithBlanks:
      if (state.seen++ > 0) send(i + 1, " ");
      return send(i + 1, token);
    case Kind::kFuse:
      return send(i + 1, token);
    case Kind::kByteFallback:
      return byte_fallback(i, token);
    case Kind::kStrip:
      return send(i + 1, strip(token, step.content, step.start, step.stop));
    case Kind::kReplace: {
      std::string text(token);
      std::size_t start = 0;
      replace_matches(text, step.pattern.front(), step.content, start, scratch_);
      return send(i + 1, text);
    }
    case Kind::kByteLevel: {
      const auto bytes = letters_to_bytes(token);
      state.held += bytes ? std::string_view(*bytes) : token;
      std::string text;
      state.held.erase(0, append_lossy_utf8(text, state.held, /*last=*/false));
      return send(i + 1, text);
    }
    case Kind::kMetaspace: {
      const bool drop = state.seen++ == 0 && step.prepended;
      std::string text;
      for (std::size_t at; (at = token.find(step.content)) != token.npos;) {
        text += token.substr(0, at);
        if (!drop) text += ' ';
        token.remove_prefix(at + step.content.size());
      }
      text += token;
      return send(i + 1, text);
    }
    case Kind::kWordPiece: {
      const bool is_first = state.seen++ == 0;
      const bool continues = token.substr(0, step.content.size()) == step.content;
      if (!is_first && continues) token.remove_prefix(step.content.size());
      std::string text(is_first || continues ? "" : " ");
      text += token;
      return send(i + 1, step.cleanup ? without_loose_blanks(std::move(text)) : text);
    }
    case Kind::kWordEnds: {  // the suffix of the last token is no blank
      const std::string previous = std::exchange(state.held, std::string(token));
      if (state.seen++ > 0) send(i + 1, replaced(previous, step.content, " "));
      return;
    }
  }
}

// A run of byte tokens is text if all of it is valid UTF-8, else each byte is U+FFFD: only its end
// decides.
void Decoder::Stream::byte_fallback(std::size_t i, std::string_view token) {
  if (const int byte = fallback_byte(token); byte >= 0) {
    states_[i].held += static_cast<char>(byte);
    return;
  }
  flush_bytes(i);
  send(i + 1, token);
}

void Decoder::Stream::flush_bytes(std::size_t i) {
  const std::string run = std::exchange(states_[i].held, {});
  if (run.empty()) return;
  if (is_valid_utf8(run)) return send(i + 1, run);
  for (std::size_t k = 0; k < run.size(); ++k) send(i + 1, kReplacement);
}

void Decoder::Stream::end(std::size_t i) {
  const Step& step = decoder_.steps_[i];
  if (step.after_fuse) {
    const std::string whole = std::exchange(states_[i].held, {});
    if (!whole.empty()) transform(i, whole);
  }
  if (step.kind == Kind::kByteFallback) flush_bytes(i);
  if (step.kind == Kind::kWordEnds && states_[i].seen > 0) {
    send(i + 1, replaced(std::exchange(states_[i].held, {}), step.content, ""));
  }
  if (step.kind == Kind::kByteLevel) {
    send(i + 1, lossy_utf8(std::exchange(states_[i].held, {})));
  }
}

}  // namespace glint
