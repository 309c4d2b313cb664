#include "rl/rewards/reward.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/hash.h"
#include "base/str.h"
#include "base/utf8.h"
#include "rl/rewards/boxed.h"
#include "rl/rewards/expression.h"
#include "rl/rewards/normal_form.h"
#include "text/template/jinja/characters.h"

namespace glint {
namespace {

Grade right(std::string_view answer) {
  return {.reward = 1, .answer = std::string(answer), .reason = "the answer equals the label"};
}
Grade zero(std::string reason) { return {.reward = 0, .reason = std::move(reason)}; }

// The last \boxed{} of `text` against the label, or what the label has in a box of its own.
Grade grade_boxed(std::string_view text, std::string_view label) {
  const std::optional<std::string_view> answer = last_boxed(text);
  if (!answer) return zero("there is no \\boxed{} with braces that close");
  if (label.find("\\boxed") != label.npos) {
    const std::optional<std::string_view> inside = last_boxed(label);
    if (!inside) return zero("the label has a \\boxed whose braces do not close");
    label = *inside;
  }
  if (label.empty()) return zero("the label is empty");
  if (same_answer(*answer, label)) return right(*answer);
  return {.reward = 0,
          .answer = std::string(*answer),
          .reason = str("the answer ", quoted(*answer), " is not ", quoted(label))};
}

Grade deepscaler(std::string_view text, std::string_view label) {
  constexpr std::string_view kThought = "</think>", kResponse = "###Response";
  if (const std::size_t at = text.rfind(kThought); at != text.npos) {
    text.remove_prefix(at + kThought.size());
  } else if (const std::size_t begin = text.find(kResponse); begin != text.npos) {
    text.remove_prefix(begin + kResponse.size());
    text = text.substr(0, text.find(kResponse));
  } else {
    return zero("there is no </think> (and no ###Response): the thinking has not ended");
  }
  return grade_boxed(text, label);
}

// The last match of (?i)Answer\s*:\s*([^\n]+).
std::optional<std::string_view> last_answer_line(std::string_view text) {
  constexpr std::string_view kAnswer = "answer";
  const std::string small = lower(text);
  std::optional<std::string_view> found;
  for (std::size_t at = 0; (at = small.find(kAnswer, at)) != small.npos;) {
    at += kAnswer.size();
    std::size_t begin = at;
    while (begin < text.size() && is_space(text[begin])) ++begin;
    if (begin == text.size() || text[begin] != ':') continue;
    const std::size_t after_colon = ++begin;
    while (begin < text.size() && is_space(text[begin])) ++begin;
    // Nothing but blanks: the last that ends no line counts as the answer.
    if (begin == text.size()) {
      while (begin > after_colon && (begin == text.size() || text[begin] == '\n')) --begin;
      if (begin == text.size() || text[begin] == '\n') continue;
    }
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    found = text.substr(begin, end - begin);
    at = end;
  }
  return found;
}

// The last `count` characters of UTF-8.
std::string_view tail(std::string_view text, int count) {
  std::size_t begin = text.size();
  while (begin > 0 && count > 0) {
    --begin;
    if ((static_cast<unsigned char>(text[begin]) & 0xC0) != 0x80) --count;
  }
  return text.substr(begin);
}

// Each whitespace character of Unicode as a tab: the rule asks for no other than ' ' and '\n'.
std::string with_tabs(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    append_utf8(out, jinja::is_space(c) && c != ' ' && c != '\n' ? U'\t' : c);
  }
  return out;
}

Grade dapo(std::string_view text, std::string_view label) {
  const std::string end = with_tabs(tail(text, 300));
  const std::optional<std::string_view> line = last_answer_line(end);
  if (!line) {
    return {.reward = -1, .reason = "there is no \"Answer:\" in the last 300 characters"};
  }
  const std::string answer = dapo_form(*line);
  std::string expected = dapo_form(label);
  if (is_integer(expected)) expected = plain_form(expected);  // 34.0 is 34
  if (answer == expected) return right(answer);
  return {.reward = -1,
          .answer = answer,
          .reason = str("the answer ", quoted(answer), " is not ", quoted(expected))};
}

Grade f1(std::string_view text, std::string_view label) {
  const std::vector<std::string> said = counted_words(text), expected = counted_words(label);
  const auto one_word = [](const std::vector<std::string>& words) {
    return words.size() == 1 && (words[0] == "yes" || words[0] == "no" || words[0] == "noanswer");
  };
  if ((one_word(said) || one_word(expected)) && said != expected) {
    return zero("yes, no or noanswer is on one side alone");
  }
  std::map<std::string, int> left;
  for (const std::string& word : expected) ++left[word];
  int common = 0;
  for (const std::string& word : said) {
    if (auto it = left.find(word); it != left.end() && it->second-- > 0) ++common;
  }
  if (common == 0) return zero("no word is the label's");
  const double precision = double(common) / static_cast<double>(said.size());
  const double recall = double(common) / static_cast<double>(expected.size());
  return {
      .reward = 2 * precision * recall / (precision + recall),
      .answer = std::string(text),
      .reason = str(common, " of ", said.size(), " words are among the label's ", expected.size())};
}

Grade by_hash(std::string_view text, std::string_view label) {
  return {.reward = static_cast<double>(fnv1a(str(text, '\0', label)) >> 32 & 1),
          .reason = "a bit of the hash of text and label"};
}

struct Named {
  std::string_view name;
  Grade (*rule)(std::string_view, std::string_view);
};
constexpr Named kRules[] = {{"deepscaler", deepscaler},
                            {"math", grade_boxed},
                            {"dapo", dapo},
                            {"f1", f1},
                            {"deterministic_random", by_hash}};

}  // namespace

std::vector<std::string> Reward::names() {
  std::vector<std::string> names;
  for (const Named& rule : kRules) names.emplace_back(rule.name);
  return names;
}

Result<Reward> Reward::named(std::string_view name) {
  constexpr std::string_view kBoxed = "boxed_";
  const bool boxed = name.starts_with(kBoxed);
  const std::string_view base = boxed ? name.substr(kBoxed.size()) : name;
  for (const Named& rule : kRules) {
    if (rule.name == base) return Reward(std::string(name), rule.rule, boxed);
  }
  return invalid(str("there is no reward ", quoted(name), "; there are ", joined(names(), ", "),
                     ", each also with boxed_ before it"));
}

Grade Reward::grade(std::string_view text, std::string_view label) const {
  if (boxed_) text = last_boxed(text).value_or(std::string_view());
  return rule_(text, label);
}

bool same_answer(std::string_view answer, std::string_view label) {
  if (mathd_form(answer) == mathd_form(label)) return true;
  const std::string given = plain_form(answer), expected = plain_form(label);
  if (given == expected) return true;
  if (given.empty()) return false;
  const std::vector<std::string> parts = tuple_elements(given), wanted = tuple_elements(expected);
  if (wanted.size() > 1 && (expected.front() != given.front() || expected.back() != given.back())) {
    return false;
  }
  if (parts.size() != wanted.size() || parts.empty()) return false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string &a = parts[i], &b = wanted[i];
    const bool same = is_fraction(a) && is_fraction(b) ? a == b
                      : is_integer(a) != is_integer(b) ? false
                                                       : equal_expressions(a, b);
    if (!same) return false;
  }
  return true;
}

}  // namespace glint
