#include "text/tokenizer/normalizer.h"

#include <algorithm>

#include "base/str.h"
#include "text/tokenizer/tokenizer_bytes.h"
#include "text/tokenizer/tokenizer_fields.h"

namespace glint {
namespace {

constexpr std::size_t kMaxSteps = 64;
constexpr std::size_t kMaxGrowth = 1024;
constexpr std::string_view kKnown =
    "Sequence, NFC, NFD, NFKC, NFKD, Strip, Prepend, Replace, ByteLevel";

struct Form {
  std::string_view type;
  NormalForm form;
  std::size_t growth;  // of UTF-8, at most
};
constexpr Form kForms[] = {{"NFC", NormalForm::kNfc, 3},
                           {"NFD", NormalForm::kNfd, 3},
                           {"NFKC", NormalForm::kNfkc, 11},
                           {"NFKD", NormalForm::kNfkd, 11}};

constexpr std::string_view kBlanksAtStart = "\\A\\p{White_Space}+";
// Not begun within the blanks, which would be quadratic.
constexpr std::string_view kBlanksAtEnd = "(?<!\\p{White_Space})\\p{White_Space}++\\z";

}  // namespace

Result<Normalizer> Normalizer::parse(const Json& json) {
  Normalizer normalizer;
  GrowthLimit growth;
  if (!json.is_null()) GLINT_TRY_STATUS(normalizer.parse_step(json, "normalizer", 0, growth));
  return normalizer;
}

Status GrowthLimit::add(std::size_t factor, const std::string& where) {
  factor_ *= factor;
  if (factor_ <= kMaxGrowth) return Ok{};
  return invalid(str(where, ": up to here a text could become more than ", kMaxGrowth,
                     " times as long; leave out steps"));
}

std::size_t growth_of_replacing(const Json& pattern, std::string_view content) {
  const Json* literal = pattern.find("String");
  const std::size_t matched = literal ? std::max<std::size_t>(1, literal->as_string().size()) : 1;
  return std::max<std::size_t>(1, (content.size() + matched - 1) / matched);
}

Status Normalizer::parse_step(const Json& json, const std::string& where, int depth,
                              GrowthLimit& growth) {
  if (steps_.size() > kMaxSteps) return invalid(str(where, ": more than ", kMaxSteps, " steps"));
  Fields fields(json, where);
  const std::string type = fields.text("type");
  if (type == "Sequence") {
    return parse_sequence(fields, "normalizers", depth,
                          [this, &growth](const Json& step, const std::string& at, int below) {
                            return parse_step(step, at, below, growth);
                          });
  }
  std::size_t factor = 1;  // for `growth`
  const auto* form = std::find_if(std::begin(kForms), std::end(kForms),
                                  [&](const Form& known) { return known.type == type; });
  if (form != std::end(kForms)) {
    steps_.push_back(form->form);
    factor = form->growth;
  } else if (type == "Strip") {
    const bool left = fields.flag("strip_left"), right = fields.flag("strip_right");
    if (left) steps_.push_back(Replace{Regex::from_pcre2(kBlanksAtStart).value(), ""});
    if (right) steps_.push_back(Replace{Regex::from_pcre2(kBlanksAtEnd).value(), ""});
  } else if (type == "ByteLevel") {
    steps_.push_back(ByteLevel{});
    factor = 2;
  } else if (type == "Prepend") {
    std::string prepended = fields.text("prepend");
    factor = 1 + prepended.size();
    steps_.push_back(Prepend{std::move(prepended)});
  } else if (type == "Replace") {
    const Json& pattern = fields.value("pattern");
    std::string content = fields.text("content");
    GLINT_TRY_STATUS(fields.done());
    GLINT_TRY(Regex regex, parse_pattern(pattern, where + ".pattern"));
    if (regex.may_match_nothing())
      return invalid(where + ".pattern: it may match nothing, where nothing can be replaced");
    factor = growth_of_replacing(pattern, content);
    steps_.push_back(Replace{std::move(regex), std::move(content)});
  } else {
    return fields.unknown_type(type, kKnown);
  }
  GLINT_TRY_STATUS(growth.add(factor, where));
  return fields.done();
}

Status Normalizer::apply(std::string& text, std::size_t& start, Regex::Scratch& scratch) const {
  for (const Step& step : steps_) {
    if (const auto* prepend = std::get_if<Prepend>(&step)) {
      if (text.empty()) continue;
      text.insert(0, prepend->text);
      if (start > 0) start += prepend->text.size();
    } else if (const auto* replace = std::get_if<Replace>(&step)) {
      if (!replace_matches(text, replace->regex, replace->content, start, scratch)) {
        return invalid("the normalizer's pattern gave up on a text of " +
                       std::to_string(text.size()) + " bytes");
      }
    } else if (const auto* form = std::get_if<NormalForm>(&step)) {
      start = normalize(text.substr(0, start), *form).size();
      text = normalize(text, *form);
    } else {
      start = bytes_to_letters(text.substr(0, start)).size();
      text = bytes_to_letters(text);
    }
  }
  return Ok{};
}

Result<Regex> parse_pattern(const Json& json, const std::string& where) {
  Fields fields(json, where);
  const bool is_regex = !fields.value_or_null("Regex").is_null();
  const std::string pattern = fields.text(is_regex ? "Regex" : "String");
  GLINT_TRY_STATUS(fields.done());
  return (is_regex ? Regex::from_oniguruma(pattern) : Regex::from_literal(pattern))
      .in(str(where, " ", quoted(pattern)));
}

bool replace_matches(std::string& text, const Regex& regex, std::string_view content,
                     std::size_t& start, Regex::Scratch& scratch) {
  if (text.empty()) return true;  // `tokenizers` finds nothing in nothing, not even an empty match
  std::string out;
  std::size_t copied = 0;
  std::size_t new_start = start;
  const bool done = for_each_match(regex, text, scratch, [&](std::size_t begin, std::size_t end) {
    out.append(text, copied, begin - copied).append(content);
    copied = end;
    if (end <= start) {
      new_start += content.size() - (end - begin);
    } else if (begin < start) {
      new_start -= start - begin;
    }
  });
  start = new_start;
  if (copied == 0 && out.empty()) return done;
  out.append(text, copied);
  text = std::move(out);
  return done;
}

}  // namespace glint
