#include "rl/rewards/normal_form.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/str.h"
#include "base/utf8.h"
#include "text/template/jinja/characters.h"

namespace glint {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  std::string out;
  std::size_t begin = 0;
  for (std::size_t at; (at = text.find(from, begin)) != text.npos; begin = at + from.size()) {
    out.append(text, begin, at - begin).append(to);
  }
  if (begin == 0) return;
  text = out.append(text, begin);
}

std::size_t count_of(std::string_view text, std::string_view piece) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(piece, at)) != text.npos; at += piece.size()) ++count;
  return count;
}

// The character at `at`, as Python counts them; empty at the end.
std::string_view character_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  if (at < text.size()) next_code_point(text, end);
  return text.substr(at, end - at);
}

// X if all of `text` is \text{X}.
std::optional<std::string_view> whole_text(std::string_view text) {
  constexpr std::string_view kText = "\\text{";
  if (!text.starts_with(kText) || !text.ends_with('}') || text.size() < kText.size() + 2) return {};
  return text.substr(kText.size(), text.size() - kText.size() - 1);
}

// \sqrt3 -> \sqrt{3}. False: a root has nothing behind it.
bool brace_roots(std::string& text) {
  constexpr std::string_view kSqrt = "\\sqrt";
  std::string out;
  std::size_t begin = 0;
  for (std::size_t at; (at = text.find(kSqrt, begin)) != text.npos;) {
    const std::size_t after = at + kSqrt.size();
    if (after == text.size() || text.compare(after, kSqrt.size(), kSqrt) == 0) return false;
    out.append(text, begin, after - begin);
    begin = after;
    if (text[after] == '{') continue;
    const std::string_view argument = character_at(text, after);
    out += str('{', argument, '}');
    begin = after + argument.size();
  }
  text = out.append(text, begin);
  return true;
}

// \frac12 -> \frac{1}{2}, \frac1{72} -> \frac{1}{72}. False: a fraction has nothing behind it.
bool brace_fractions(std::string& text) {
  constexpr std::string_view kFrac = "\\frac";
  std::string out;
  std::size_t begin = 0;
  for (std::size_t at; (at = text.find(kFrac, begin)) != text.npos;) {
    const std::size_t after = at + kFrac.size();
    const std::size_t end = std::min(text.find(kFrac, after), text.size());
    if (after == end) return false;
    out.append(text, begin, after - begin);
    begin = after;
    if (text[after] == '{') continue;
    const std::string_view above = character_at(text, after);
    const std::size_t below_at = after + above.size();
    if (below_at == end) return true;  // as it was
    out += str('{', above, '}');
    begin = below_at;
    if (text[begin] == '{') continue;
    const std::string_view below = character_at(text, begin);
    out += str('{', below, '}');
    begin += below.size();
  }
  text = out.append(text, begin);
  return true;
}

// As Python prints an int: "-" and digits without zeros before them, and no -0.
bool is_plain_int(std::string_view text) {
  if (text.starts_with('-') && text != "-0") text.remove_prefix(1);
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit) &&
         (text.size() == 1 || text[0] != '0');
}

// The digits of a decimal integer without what its value does not need; nothing if it is none.
std::optional<std::string> exact_integer(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty() || !std::all_of(text.begin(), text.end(), is_digit)) return {};
  while (text.size() > 1 && text[0] == '0') text.remove_prefix(1);
  return str(negative && text != "0" ? "-" : "", text);
}

// The integer that a number is within 1e-7 of.
std::optional<std::string> nearby_integer(std::string_view text) {
  text = jinja::strip(text);
  if (auto exact = exact_integer(text)) return exact;
  if (text.starts_with('+')) text.remove_prefix(1);
  if (text.empty() || !(is_digit(text.back()) || text.back() == '.')) return {};
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return {};
  if (std::abs(value - std::round(value)) > 1e-7) return {};
  const std::string digits = formatted("%.0f", std::round(value));
  return digits == "-0" ? "0" : digits;
}

// "1,234,567" -> "1234567"; other commas stay.
std::string without_thousands_commas(std::string_view text) {
  const auto digits = [&](std::size_t at, std::size_t count) {
    for (std::size_t i = at; i < at + count; ++i) {
      if (i >= text.size() || !is_digit(text[i])) return false;
    }
    return true;
  };
  // From the right: a comma goes if three digits follow it, and then no digit or a comma that goes.
  std::vector<bool> goes(text.size() + 1, false);
  for (std::size_t i = text.size(); i-- > 1;) {
    if (text[i] != ',' || !is_digit(text[i - 1]) || !digits(i + 1, 3)) continue;
    goes[i] = i + 4 >= text.size() || !is_digit(text[i + 4]);
  }
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!goes[i]) out += text[i];
  }
  return out;
}

// A unit's name with its plural and exponent, wherever it stands.
void remove_unit(std::string& text, std::string_view unit) {
  std::string out;
  std::size_t begin = 0;
  for (std::size_t at; (at = text.find(unit, begin)) != text.npos;) {
    out.append(text, begin, at - begin);
    begin = at + unit.size();
    const auto skip = [&](std::string_view piece) {
      if (text.compare(begin, piece.size(), piece) == 0) begin += piece.size();
    };
    skip("es");
    skip("s");
    while (begin < text.size() && text[begin] == ' ') ++begin;
    if (begin + 1 < text.size() && text[begin] == '^' && is_digit(text[begin + 1])) {
      for (++begin; begin < text.size() && is_digit(text[begin]);) ++begin;
    }
  }
  text = out.append(text, begin);
}

// "^\circ", also with blanks between.
void remove_degrees(std::string& text) {
  constexpr std::string_view kCirc = "\\circ";
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '^') {
      std::size_t after = i + 1;
      while (after < text.size() && text[after] == ' ') ++after;
      if (text.compare(after, kCirc.size(), kCirc) == 0) {
        i = after + kCirc.size() - 1;
        continue;
      }
    }
    out += text[i];
  }
  text = std::move(out);
}

void remove_blanks_after(std::string& text, std::string_view piece, std::string_view instead) {
  std::string out;
  std::size_t begin = 0;
  for (std::size_t at; (at = text.find(piece, begin)) != text.npos;) {
    out.append(text, begin, at - begin).append(instead);
    for (begin = at + piece.size(); begin < text.size() && text[begin] == ' ';) ++begin;
  }
  text = out.append(text, begin);
}

// Commands that stand for characters.
constexpr std::array<std::array<std::string_view, 2>, 45> kCharacters = {{
    {"pi", "pi"},           {"infty", "inf"},
    {"cup", "U"},           {"cdot", "*"},
    {"times", "*"},         {"div", "/"},
    {"le", "\u2264"},       {"leq", "\u2264"},
    {"ge", "\u2265"},       {"geq", "\u2265"},
    {"ldots", "dots"},      {"lvert", "|"},
    {"rvert", "|"},         {"mid", "|"},
    {"emptyset", "\u2205"}, {"varnothing", "\u2205"},
    {"pm", "\u00b1"},       {"ne", "\u2260"},
    {"neq", "\u2260"},      {"cap", "\u2229"},
    {"alpha", "\u03b1"},    {"beta", "\u03b2"},
    {"gamma", "\u03b3"},    {"delta", "\u03b4"},
    {"epsilon", "\u03f5"},  {"varepsilon", "\u03b5"},
    {"zeta", "\u03b6"},     {"eta", "\u03b7"},
    {"theta", "\u03b8"},    {"vartheta", "\u03d1"},
    {"iota", "\u03b9"},     {"kappa", "\u03ba"},
    {"lambda", "\u03bb"},   {"mu", "\u03bc"},
    {"nu", "\u03bd"},       {"xi", "\u03be"},
    {"rho", "\u03c1"},      {"sigma", "\u03c3"},
    {"tau", "\u03c4"},      {"upsilon", "\u03c5"},
    {"phi", "\u03d5"},      {"varphi", "\u03c6"},
    {"chi", "\u03c7"},      {"psi", "\u03c8"},
    {"omega", "\u03c9"},
}};

// LaTeX as plain text: fractions as a/b, roots as sqrt(x), braces of groups dropped, commands that
// stand for a character spelled as one, others by their names, so that \cos is not \sin; those
// of fonts and spaces dropped.
class LatexReader {
 public:
  explicit LatexReader(std::string_view text) : text_(text) {}

  std::string read() {
    std::string out;
    while (at_ < text_.size()) append_next(out, 0);
    return out;
  }

 private:
  static constexpr int kMaxDepth = 64;

  // One character, group or command with its arguments.
  void append_next(std::string& out, int depth) {
    const std::string_view c = character_at(text_, at_);
    at_ += c.size();
    if (c == "{" && depth < kMaxDepth) {
      while (at_ < text_.size() && text_[at_] != '}') append_next(out, depth + 1);
      if (at_ < text_.size()) ++at_;
    } else if (c == "\\") {
      append_command(out, depth);
    } else if (c != "{" && c != "}") {
      out += c;
    }
  }

  std::string argument(int depth) {
    std::string out;
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    if (at_ < text_.size() && text_[at_] != '}' && depth < kMaxDepth) append_next(out, depth + 1);
    return out;
  }

  static std::string bracketed(std::string part) {
    const bool simple =
        character_at(part, 0).size() == part.size() ||
        std::all_of(part.begin(), part.end(), [](char c) { return is_digit(c) || c == '.'; }) ||
        nearby_integer(part);
    return simple ? part : str('(', part, ')');
  }

  void append_command(std::string& out, int depth) {
    if (at_ == text_.size()) return;
    const std::size_t begin = at_;
    while (at_ < text_.size() && std::isalpha(static_cast<unsigned char>(text_[at_]))) ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    if (name.empty()) {  // \, \{ \% ...
      const char c = text_[at_];
      at_ += character_at(text_, at_).size();
      if (c == ',' || c == ';' || c == ':' || c == ' ' || c == '\\') out += ' ';
      if (c == '%' || c == '$' || c == '&' || c == '#' || c == '_') out += c;
      return;
    }
    if (name == "frac" || name == "tfrac" || name == "dfrac") {
      const std::string above = argument(depth), below = argument(depth);
      out += str(' ', bracketed(above), '/', bracketed(below));  // a blank: of mixed numbers
    } else if (name == "sqrt") {
      out += str("sqrt(", argument(depth), ')');
    } else {
      for (const auto& [command, character] : kCharacters) {
        if (name == command) out += character;
        if (name == command) return;
      }
      if (!is_layout(name)) out += name;
    }
  }

  static bool is_layout(std::string_view name) {
    for (const std::string_view one :
         {"begin", "bm", "boldsymbol", "boxed", "degree", "displaystyle", "emph", "end", "fbox",
          "hbox", "lbrace", "left", "mbox", "operatorname", "qquad", "quad", "rbrace", "right"}) {
      if (name == one) return true;
    }
    for (const std::string_view begin : {"text", "math", "big", "Big", "over", "under", "wide"}) {
      if (name.starts_with(begin)) return true;
    }
    return false;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// "3 1/2" is a mixed number.
void join_mixed_numbers(std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ' && !out.empty() && is_digit(out.back())) {
      std::size_t after = i;
      while (after < text.size() && text[after] == ' ') ++after;
      if (after < text.size() && is_digit(text[after])) {
        out += '+';
        i = after - 1;
        continue;
      }
    }
    out += text[i];
  }
  text = std::move(out);
}

bool is_bracket(char c) { return c == '(' || c == ')' || c == '[' || c == ']'; }

}  // namespace

std::string mathd_form(std::string_view answer) {
  answer = jinja::strip(answer);
  if (const auto inside = whole_text(answer)) answer = jinja::strip(*inside);
  std::string text(answer);
  for (const std::string_view gone : {"\n", "\\!"}) replace_all(text, gone, "");
  replace_all(text, "\\\\", "\\");
  for (const std::string_view frac : {"tfrac", "dfrac"}) replace_all(text, frac, "frac");
  for (const std::string_view gone : {"\\left", "\\right", "^{\\circ}", "^\\circ", "\\$"}) {
    replace_all(text, gone, "");
  }
  constexpr std::string_view kUnit = "\\text{ ";
  if (const std::size_t units = count_of(text, kUnit); units > 0) {
    if (units > 1) return std::string(answer);
    text.resize(text.find(kUnit));
  }
  replace_all(text, "\\%", "");
  replace_all(text, " .", " 0.");
  replace_all(text, "{.", "{0.");
  if (text.empty()) return text;
  if (text[0] == '.') text.insert(0, 1, '0');
  if (count_of(text, "=") == 1 && text.find('=') <= 2) text.erase(0, text.find('=') + 1);
  if (!brace_roots(text)) return std::string(answer);
  replace_all(text, " ", "");
  if (!brace_fractions(text)) return std::string(answer);
  if (text == "0.5") text = "\\frac{1}{2}";
  const std::vector<std::string_view> parts = split(text, '/');
  if (parts.size() == 2 && is_plain_int(parts[0]) && is_plain_int(parts[1])) {
    text = str("\\frac{", parts[0], "}{", parts[1], "}");
  }
  return text;
}

std::string plain_form(std::string_view answer) {
  std::string text(whole_text(answer).value_or(answer));
  replace_all(text, "\\%", "%");
  replace_all(text, "\\$", "$");
  for (const std::string_view gone : {"$", "%"}) replace_all(text, gone, "");
  for (const std::string_view word : {" or ", " and "}) replace_all(text, word, " , ");
  replace_all(text, "million", "*10^6");
  replace_all(text, "billion", "*10^9");
  replace_all(text, "trillion", "*10^12");
  for (const std::string_view unit :
       {"degree", "cm", "centimeter", "meter", "mile", "second", "minute", "hour", "day", "week",
        "month", "year", "foot", "feet", "inch", "yard"}) {
    remove_unit(text, unit);
  }
  remove_degrees(text);
  if (text.size() > 1 && text.front() == '{' && text.back() == '}') {
    text = text.substr(1, text.size() - 2);
  }
  remove_blanks_after(text, ",\\!", "");
  if (auto integer = nearby_integer(text)) text = *integer;
  if (text.find('\\') != text.npos) text = jinja::strip(LatexReader(text).read());
  remove_blanks_after(text, "-", "-");
  join_mixed_numbers(text);
  for (const std::string_view gone : {" ", "{", "}"}) replace_all(text, gone, "");
  text = lower(text);
  return nearby_integer(without_thousands_commas(text)).value_or(text);
}

std::vector<std::string> tuple_elements(std::string_view plain) {
  const std::string text = without_thousands_commas(plain);
  if (text.empty()) return {};
  const bool tuple = text.size() > 2 && is_bracket(text.front()) && is_bracket(text.back()) &&
                     std::none_of(text.begin() + 1, text.end() - 1, is_bracket);
  if (!tuple) return {text};
  std::vector<std::string> elements;
  for (const std::string_view element :
       split(std::string_view(text).substr(1, text.size() - 2), ',')) {
    elements.emplace_back(jinja::strip(element));
  }
  return elements;
}

bool is_integer(std::string_view plain) {
  return nearby_integer(without_thousands_commas(plain)).has_value();
}

bool is_fraction(std::string_view plain) {
  const auto skip_digits = [&] {
    std::size_t count = 0;
    while (count < plain.size() && is_digit(plain[count])) ++count;
    const std::string_view digits = plain.substr(0, count);
    plain.remove_prefix(count);
    return digits;
  };
  if (plain.starts_with('-')) plain.remove_prefix(1);
  if (skip_digits().empty()) return false;
  if (!plain.starts_with('/') && !plain.empty()) plain.remove_prefix(1);
  if (!plain.starts_with('/')) return false;
  plain.remove_prefix(1);
  const std::string_view below = skip_digits();
  return below.find_first_not_of('0') != below.npos && plain.size() <= 1;
}

namespace {

// `open`X} -> X: to the next brace, or with `longest` to the last.
void unwrap(std::string& text, std::string_view open, bool longest) {
  std::string out;
  std::size_t begin = 0;
  for (std::size_t at; (at = text.find(open, begin)) != text.npos;) {
    const std::size_t inside = at + open.size();
    const std::size_t end = longest ? text.rfind('}') : text.find('}', inside);
    if (end == text.npos || end < inside) break;
    out.append(text, begin, at - begin).append(text, inside, end - inside);
    begin = end + 1;
  }
  text = out.append(text, begin);
}

// `word` followed by other than a brace: the next `parts` characters get braces each.
void brace_shorthand(std::string& text, std::string_view word, std::size_t parts) {
  std::string out;
  std::size_t begin = 0;
  for (std::size_t at; (at = text.find(word, begin)) != text.npos;) {
    const std::size_t after = at + word.size();
    out.append(text, begin, after - begin);
    begin = after;
    if (text.compare(after, 1, "{") == 0) continue;
    std::string braced;
    std::size_t end = after, left = parts;
    for (; left > 0 && end < text.size(); --left) {
      const std::string_view argument = character_at(text, end);
      braced += str('{', argument, '}');
      end += argument.size();
    }
    if (left > 0) continue;
    out += braced;
    begin = end;
  }
  text = out.append(text, begin);
}

}  // namespace

std::string dapo_form(std::string_view answer) {
  const std::size_t equal = answer.rfind('=');
  std::string text(equal == answer.npos ? answer : answer.substr(equal + 1));
  static constexpr std::array<std::array<std::string_view, 2>, 10> kSubstitutions = {
      {{"an ", ""},
       {"a ", ""},
       {".$", "$"},
       {"\\$", ""},
       {"\\ ", ""},
       {" ", ""},
       {"mbox", "text"},
       {",\\text{and}", ","},
       {"\\text{and}", ","},
       {"\\text{m}", "\\text{}"}}};
  for (const auto& [from, to] : kSubstitutions) replace_all(text, from, to);
  for (const std::string_view gone :
       {"square",     "ways",       "integers",  "dollars",      "mph",
        "inches",     "hours",      "km",        "units",        "\\ldots",
        "sue",        "points",     "feet",      "minutes",      "digits",
        "cents",      "degrees",    "cm",        "gm",           "pounds",
        "meters",     "meals",      "edges",     "students",     "childrentickets",
        "multiples",  "\\text{s}",  "\\text{.}", "\\text{\ns}",  "\\text{}^2",
        "\\text{}^3", "\\text{\n}", "\\text{}",  "\\mathrm{th}", "^\\circ",
        "^{\\circ}",  "\\;",        ",\\!",      "{,}",          "\"",
        "\\dots"}) {
    replace_all(text, gone, "");
  }
  if (const std::size_t first = text.find('$'); first != text.npos) {  // the first $...$ alone
    const std::size_t second = text.find('$', first + 1);
    if (second != text.npos) text = text.substr(first + 1, second - first - 1);
  }
  for (const std::string_view open : {"\\text{", "\\textbf{", "\\overline{"}) {
    unwrap(text, open, false);
  }
  unwrap(text, "\\boxed{", true);
  brace_shorthand(text, "frac", 2);
  brace_shorthand(text, "sqrt", 1);
  replace_all(text, "$", "");
  std::string digits = text;
  replace_all(digits, ",", "");
  if (!digits.empty() && std::all_of(digits.begin(), digits.end(), is_digit)) text = digits;
  return std::string(jinja::strip(text));
}

std::vector<std::string> counted_words(std::string_view text) {
  std::string spaced, word;
  const auto end_word = [&] {
    spaced += word == "a" || word == "an" || word == "the" ? " " : word;
    word.clear();
  };
  const std::string small = jinja::to_lower(text);
  for (std::size_t at = 0; at < small.size();) {
    const char32_t c = next_code_point(small, at);
    if (c < 0x80 && std::ispunct(static_cast<int>(c))) continue;
    if (jinja::is_word(c)) {
      append_utf8(word, c);
    } else {
      end_word();
      append_utf8(spaced, jinja::is_space(c) ? U' ' : c);
    }
  }
  end_word();
  const std::vector<std::string_view> words = words_of(spaced, " ");
  return {words.begin(), words.end()};
}

}  // namespace glint
