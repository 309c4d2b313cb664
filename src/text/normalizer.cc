#include "text/normalizer.h"

#include "base/str.h"
#include "text/tokenizer_bytes.h"
#include "text/tokenizer_fields.h"

namespace glint {
namespace {

constexpr std::string_view kKnown = "Sequence, NFC, NFD, Lowercase, Prepend, Replace, ByteLevel";

}  // namespace

Result<Normalizer> Normalizer::parse(const Json& json) {
  Normalizer normalizer;
  if (!json.is_null()) GLINT_TRY_STATUS(normalizer.parse_step(json, "normalizer", 0));
  return normalizer;
}

Status Normalizer::parse_step(const Json& json, const std::string& where, int depth) {
  Fields fields(json, where);
  const std::string type = fields.text("type");
  if (type == "Sequence") {
    return parse_sequence(fields, "normalizers", depth,
                          [this](const Json& step, const std::string& at, int below) {
                            return parse_step(step, at, below);
                          });
  }
  if (type == "NFC") {
    steps_.push_back(NormalForm::kNfc);
  } else if (type == "NFD") {
    steps_.push_back(NormalForm::kNfd);
  } else if (type == "Lowercase") {
    steps_.push_back(Lowercase{});
  } else if (type == "ByteLevel") {
    steps_.push_back(ByteLevel{});
  } else if (type == "Prepend") {
    steps_.push_back(Prepend{fields.text("prepend")});
  } else if (type == "Replace") {
    const Json& pattern = fields.value("pattern");
    std::string content = fields.text("content");
    GLINT_TRY_STATUS(fields.done());
    GLINT_TRY(Regex regex, parse_pattern(pattern, where + ".pattern"));
    steps_.push_back(Replace{std::move(regex), std::move(content)});
  } else {
    GLINT_TRY_STATUS(fields.done());
    return unknown_type(where, type, kKnown);
  }
  return fields.done();
}

Status Normalizer::apply(std::string& text, Regex::Scratch& scratch) const {
  for (const Step& step : steps_) {
    if (const auto* prepend = std::get_if<Prepend>(&step)) {
      if (!text.empty()) text.insert(0, prepend->text);
    } else if (const auto* replace = std::get_if<Replace>(&step)) {
      if (!replace_matches(text, replace->regex, replace->content, scratch)) {
        return invalid("the normalizer's pattern gave up on a text of " +
                       std::to_string(text.size()) + " bytes");
      }
    } else if (const auto* form = std::get_if<NormalForm>(&step)) {
      text = normalize(text, *form);
    } else if (std::holds_alternative<Lowercase>(step)) {
      text = lower_case(text);
    } else {
      text = bytes_to_letters(text);
    }
  }
  return Ok{};
}

Result<Regex> parse_pattern(const Json& json, const std::string& where) {
  Fields fields(json, where);
  const bool is_regex = fields.find("Regex") != nullptr;
  const std::string pattern = fields.text(is_regex ? "Regex" : "String");
  GLINT_TRY_STATUS(fields.done());
  Result<Regex> regex = is_regex ? Regex::from_oniguruma(pattern) : Regex::from_literal(pattern);
  if (!regex.ok()) return std::move(regex).take_error().in(str(where, " ", quoted(pattern)));
  return regex;
}

bool replace_matches(std::string& text, const Regex& regex, std::string_view content,
                     Regex::Scratch& scratch) {
  std::string out;
  std::size_t copied = 0;
  const bool done = for_each_match(regex, text, scratch, [&](std::size_t begin, std::size_t end) {
    out.append(text, copied, begin - copied).append(content);
    copied = end;
  });
  if (copied == 0 && out.empty()) return done;
  out.append(text, copied);
  text = std::move(out);
  return done;
}

}  // namespace glint
