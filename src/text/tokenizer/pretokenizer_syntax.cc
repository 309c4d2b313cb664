#include "text/tokenizer/pretokenizer_syntax.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/str.h"
#include "text/tokenizer/unicode.h"

namespace glint {
namespace {

constexpr int kMaxClassDepth = 15;  // PCRE2's own limit

// Members of a class. Oniguruma's \w has the six superscripts and fractions of Latin-1, but not
// within a class: neither [\w] nor [:word:].
constexpr std::string_view kSpace = "\\p{White_Space}";
constexpr std::string_view kDigit = "\\p{Nd}";
constexpr std::string_view kPosixWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
#define GLINT_WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}"

// \s \d \w \h, and in capitals what is not in them.
struct Set {
  char letter;
  std::string_view members;
};
constexpr Set kSets[] = {{'s', kSpace}, {'d', kDigit}, {'w', GLINT_WORD}, {'h', "0-9A-Fa-f"}};

constexpr Set kPlaces[] = {{'A', "\\A"},
                           {'z', "\\z"},
                           {'Z', "\\Z"},
                           {'b', "(?:(?<=[" GLINT_WORD "])(?![" GLINT_WORD "])|(?<![" GLINT_WORD
                                 "])(?=[" GLINT_WORD "]))"},
                           {'B', "(?:(?<=[" GLINT_WORD "])(?=[" GLINT_WORD "])|(?<![" GLINT_WORD
                                 "])(?![" GLINT_WORD "]))"}};
#undef GLINT_WORD

constexpr struct {
  char letter;
  char32_t character;
} kControls[] = {{'n', '\n'}, {'r', '\r'}, {'t', '\t'}, {'f', '\f'},
                 {'v', '\v'}, {'a', '\a'}, {'e', 0x1B}};

struct Name {
  std::string_view name, meaning;
};
constexpr Name kPosixClasses[] = {{"alpha", "\\p{Alphabetic}"},
                                  {"digit", kDigit},
                                  {"space", kSpace},
                                  {"alnum", "\\p{Alphabetic}\\p{Nd}"},
                                  {"upper", "\\p{Uppercase}"},
                                  {"lower", "\\p{Lowercase}"},
                                  {"punct", "\\p{P}\\p{S}"},
                                  {"word", kPosixWord},
                                  {"xdigit", "0-9A-Fa-f"},
                                  {"cntrl", "\\p{Cc}"},
                                  {"blank", "\\p{Zs}\\t"}};

// Beginnings of groups that are the same in both languages.
constexpr std::string_view kGroups[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};

constexpr std::string_view kCategories[] = {
    "Any", "C",  "Cc", "Cf", "Cn", "Co", "Cs", "L",  "Ll", "Lm", "Lo", "Lt", "Lu",
    "M",   "Mc", "Me", "Mn", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Pe", "Pf",
    "Pi",  "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs"};
constexpr Name kProperties[] = {{"Letter", "L"},
                                {"Mark", "M"},
                                {"Number", "N"},
                                {"Punctuation", "P"},
                                {"Punct", "P"},
                                {"Symbol", "S"},
                                {"Separator", "Z"},
                                {"Other", "C"},
                                {"UppercaseLetter", "Lu"},
                                {"LowercaseLetter", "Ll"},
                                {"DecimalNumber", "Nd"},
                                {"Digit", "Nd"},
                                {"Alpha", "Alphabetic"},
                                {"Alphabetic", "Alphabetic"},
                                {"Space", "White_Space"},
                                {"WhiteSpace", "White_Space"},
                                {"Upper", "Uppercase"},
                                {"Uppercase", "Uppercase"},
                                {"Lower", "Lowercase"},
                                {"Lowercase", "Lowercase"},
                                {"Emoji", "Emoji"},
                                {"EmojiPresentation", "Emoji_Presentation"},
                                {"EmojiModifier", "Emoji_Modifier"},
                                {"ExtendedPictographic", "Extended_Pictographic"},
                                {"Ideographic", "Ideographic"}};

bool is_name_byte(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

bool same_letters(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return (x | 0x20) == (y | 0x20); });
}

// PCRE2's name for \p{name}: a general category, one of a few properties, or else a script.
std::string pcre2_property(std::string_view name) {
  for (const std::string_view category : kCategories) {
    if (same_letters(category, name)) return std::string(category);
  }
  for (const auto& [ours, theirs] : kProperties) {
    if (same_letters(ours, name)) return std::string(theirs);
  }
  return str("sc:", name);
}

// Properties that a class holds in both cases or in none, so that ignoring case adds nothing. L
// lacks one mark, which is added.
constexpr std::string_view kCaseless[] = {
    "Any",        "L",           "N",      "Nd",        "Nl",          "No",
    "P",          "S",           "So",     "Z",         "Zs",          "Cc",
    "Alphabetic", "White_Space", "sc:Han", "sc:Hangul", "sc:Hiragana", "sc:Katakana"};
constexpr std::string_view kMarkOfLetters = "\\x{345}";  // upper case: iota

// Where Oniguruma ignores case, these are also one other character ("ss" is U+DF) ...
constexpr std::string_view kFolded[] = {"ff", "fi", "fl", "ss", "st"};
// ... and these are several.
constexpr std::pair<char32_t, char32_t> kUnfolded[] = {
    {0xDF, 0xDF},     {0x130, 0x130},   {0x149, 0x149},  {0x1F0, 0x1F0},
    {0x2BC, 0x2BE},   {0x300, 0x390},   {0x3B0, 0x3B0},  {0x535, 0x587},
    {0x1E96, 0x1E9E}, {0x1F50, 0x1FFC}, {0xFB00, 0xFB17}};

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  Result<Pcre2Pattern> run() {
    while (at_ < in_.size()) GLINT_TRY_STATUS(item());
    if (!open_.empty()) return problem("a group is not closed");
    return Pcre2Pattern{std::move(out_), extended_};
  }

 private:
  Error problem(const std::string& what) const {
    return Error{ErrorCode::kUnsupported, str("at byte ", at_, ": ", what)};
  }
  bool take(std::string_view text) {
    if (in_.substr(at_, text.size()) != text) return false;
    at_ += text.size();
    return true;
  }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0';
  }

  void atom(std::string_view text) {
    atom_ = out_.size();
    previous_ = '\0';
    out_ += text;
  }
  void no_atom(std::string_view text) {
    atom_.reset();
    previous_ = '\0';
    out_ += text;
  }
  // A character that stands for itself. Fails where ignoring case makes it more than PCRE2 knows.
  Status literal(char32_t c) {
    if (ignore_case_) {
      const std::string pair = {previous_, static_cast<char>(c < 0x80 ? c | 0x20 : 0)};
      for (const std::string_view folded : kFolded) {
        if (pair == folded) return problem("case is ignored for " + pair);
      }
      for (const auto& [first, last] : kUnfolded) {
        if (c >= first && c <= last)
          return problem("case is ignored for what is several characters in another");
      }
      previous_ = pair[1];
    }
    append_code_point(c);
    return Ok{};
  }

  void append_code_point(char32_t c) {
    if (c < 0x80 && is_name_byte(static_cast<char>(c))) {
      out_ += static_cast<char>(c);
    } else {
      out_ += formatted("\\x{%X}", static_cast<unsigned>(c));
    }
  }

  Status item() {
    switch (peek()) {
      case '\\':
        return escape();
      case '[': {
        const std::size_t start = out_.size();
        GLINT_TRY_STATUS(char_class(1));
        atom_ = start;
        return Ok{};
      }
      case '(':
        return open_group();
      case ')':
        if (open_.empty()) return problem("a group is closed that was not opened");
        atom_ = open_.back().begin;
        ignore_case_ = open_.back().ignore_case;
        open_.pop_back();
        out_ += ')';
        ++at_;
        return Ok{};
      case '|':
        return ++at_, no_atom("|"), Ok{};
      case '^':
        return ++at_, no_atom("^"), Ok{};  // compiled with PCRE2_MULTILINE
      case '$':
        return ++at_, no_atom("$"), Ok{};
      case '.':
        return ++at_, atom("."), Ok{};
      case '*':
      case '+':
      case '?':
        return ++at_, quantify(std::string(1, in_[at_ - 1]), /*interval=*/false);
      case '{':
        if (auto text = interval()) return quantify(*text, /*interval=*/true);
        [[fallthrough]];  // Oniguruma reads a brace that begins no interval as itself
      default:
        atom_ = out_.size();
        return literal(next_code_point(in_, at_));
    }
  }

  // "{2}", "{2,}", "{,3}" or "{2,3}" as PCRE2 spells it; the input moves behind it.
  std::optional<std::string> interval() {
    std::size_t end = at_ + 1;
    const auto digits = [&] {
      const std::size_t from = end;
      while (end < in_.size() && in_[end] >= '0' && in_[end] <= '9') ++end;
      return std::string(in_.substr(from, end - from));
    };
    std::string low = digits(), high;
    const bool comma = end < in_.size() && in_[end] == ',';
    if (comma) ++end, high = digits();
    if (end >= in_.size() || in_[end] != '}' || (low.empty() && high.empty())) return std::nullopt;
    at_ = end + 1;
    if (low.empty()) low.push_back('0');
    return str("{", low, comma ? "," : "", high, "}");
  }

  Status quantify(const std::string& text, bool interval) {
    if (!atom_) return problem("there is nothing to repeat");
    previous_ = '\0';
    out_ += text;
    const bool fixed = interval && text.find(',') == text.npos;
    // After an interval Oniguruma's + repeats the whole once more, and so does ? after a fixed one.
    const bool again = (interval && peek() == '+') || (fixed && peek() == '?');
    if (again) out_.insert(*atom_, "(?:"), out_ += ')';
    if (peek() == '?' || peek() == '+') out_ += in_[at_++];
    if (peek() == '*' || peek() == '+' || peek() == '?') return problem("a repetition is repeated");
    atom_.reset();
    return Ok{};
  }

  Status open_group() {
    if (take("(?#")) {
      const std::size_t end = in_.find(')', at_);
      if (end == in_.npos) return problem("a comment is not closed");
      at_ = end + 1;
      return Ok{};
    }
    if (peek(1) == '?') {
      for (const std::string_view begin : kGroups) {
        if (take(begin)) return open(begin);
      }
      return option_group();
    }
    ++at_;
    return open("(?:");  // nothing can refer to a capture
  }

  Status open(std::string_view begin) {
    open_.push_back({out_.size(), ignore_case_});
    no_atom(begin);
    return Ok{};
  }

  // "(?i:" and "(?-i:"; "(?i)" at the beginning, where both languages give it the same scope.
  // Oniguruma's m is PCRE2's s.
  Status option_group() {
    at_ += 2;
    std::string options;
    while (peek() == 'i' || peek() == 'm' || peek() == '-') {
      options += peek() == 'm' ? 's' : peek();
      ++at_;
    }
    if (options.empty() || (peek() != ':' && peek() != ')')) return problem("an unsupported group");
    const bool ignore_case = options.find('i') < options.find('-') ||
                             (ignore_case_ && options.find('i') == options.npos);
    if (take(":")) {
      GLINT_TRY_STATUS(open(str("(?", options, ":")));
      ignore_case_ = ignore_case;
      return Ok{};
    }
    if (!out_.empty()) return problem("options are set in the middle of a pattern");
    ++at_;
    ignore_case_ = ignore_case;
    no_atom(str("(?", options, ")"));
    return Ok{};
  }

  Status escape() {
    for (const auto& [letter, members] : kSets) {
      if (take_escape(letter)) return atom(str("[", members, "]")), Ok{};
      if (take_escape(upper(letter))) return atom(str("[^", members, "]")), Ok{};
    }
    for (const auto& [letter, text] : kPlaces) {
      if (take_escape(letter)) return no_atom(text), Ok{};
    }
    atom_ = out_.size();
    if (take_escape('R')) return out_ += "\\R", Ok{};
    if (peek(1) == 'p' || peek(1) == 'P') {
      if (ignore_case_) out_ += "(?-i:";  // case is ignored for characters and classes only
      GLINT_TRY_STATUS(property(/*in_class=*/false));
      if (ignore_case_) out_ += ')';
      return Ok{};
    }
    return character_escape();
  }

  bool take_escape(char letter) {
    if (peek() != '\\' || peek(1) != letter) return false;
    at_ += 2;
    return true;
  }

  static char upper(char letter) { return static_cast<char>(letter & ~0x20); }

  // \n, \x41, \x{1F600}, \u0041, or an escaped sign.
  Status character_escape() {
    for (const auto& [letter, character] : kControls) {
      if (take_escape(letter)) return append_code_point(character), Ok{};
    }
    if (peek(1) == 'x' || peek(1) == 'u') return hex_escape();
    if (at_ + 1 >= in_.size()) return problem("the pattern ends in a backslash");
    if (is_name_byte(peek(1))) return problem(str("unsupported escape \\", peek(1)));
    ++at_;
    return literal(next_code_point(in_, at_));
  }

  Status hex_escape() {
    const bool braces = peek(1) == 'x' && peek(2) == '{';
    const std::size_t max = braces ? 8 : peek(1) == 'x' ? 2 : 4;
    std::size_t end = at_ + (braces ? 3 : 2);
    std::uint32_t value = 0;
    std::size_t digits = 0;
    for (; digits < max && end < in_.size(); ++digits, ++end) {
      const char c = in_[end];
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) break;
      value = value << 4 | static_cast<std::uint32_t>(digit);
    }
    const bool closed = !braces || (end < in_.size() && in_[end++] == '}');
    const bool scalar = value <= 0x10FFFF && (value < 0xD800 || value > 0xDFFF);
    // Oniguruma reads \x80 to \xFF as a byte of UTF-8.
    const bool is_byte = peek(1) == 'x' && !braces && value >= 0x80;
    if (digits == 0 || !closed || !scalar || is_byte)
      return problem("an unsupported hexadecimal escape");
    at_ = end;
    return literal(value);
  }

  // \p{Name}, \P{Name}, \p{^Name}.
  Status property(bool in_class) {
    const std::size_t end = in_.find('}', at_);
    if (peek(2) != '{' || end == in_.npos) return problem("a property without {name}");
    bool negated = peek(1) == 'P';
    std::string name;
    for (const char c : in_.substr(at_ + 3, end - at_ - 3)) {
      if (c == '^' && name.empty()) {
        negated = !negated;
      } else if (c == ' ' || c == '-' || c == '_') {
        continue;
      } else if (!is_name_byte(c)) {
        return problem("an unsupported property name");
      } else {
        name += c;
      }
    }
    at_ = end + 1;
    const std::string property = pcre2_property(name);
    out_ += str(negated ? "\\P{" : "\\p{", property, "}");
    if (!in_class || !ignore_case_) return Ok{};
    const bool caseless =
        std::find(std::begin(kCaseless), std::end(kCaseless), property) != std::end(kCaseless);
    if (!caseless || (negated && property == "L"))
      return problem("case is ignored for a class with \\p{" + name + "}");
    if (property == "L") out_ += kMarkOfLetters;
    return Ok{};
  }

  Status char_class(int depth) {
    if (depth > kMaxClassDepth) return problem("classes are nested too deeply");
    ++at_;
    out_ += '[';
    if (peek() == '^') ++at_, out_ += '^';
    if (peek() == ']') {  // first in a class it is an ordinary character
      ++at_;
      append_code_point(']');
    }
    while (peek() != ']' || at_ >= in_.size()) {
      if (at_ >= in_.size()) return problem("a class is not closed");
      if (take("&&")) {
        if (ignore_case_) return problem("case is ignored for a class with &&");
        out_ += "&&";
        extended_ = true;
      } else if (in_.substr(at_, 2) == "[:") {
        GLINT_TRY_STATUS(posix_class());
      } else if (peek() == '[') {
        extended_ = true;
        GLINT_TRY_STATUS(char_class(depth + 1));
      } else {
        GLINT_TRY_STATUS(class_member());
      }
    }
    ++at_;
    out_ += ']';
    previous_ = '\0';
    return Ok{};
  }

  // [:alpha:], [:^digit:]
  Status posix_class() {
    for (const auto& [name, members] : kPosixClasses) {
      if (ignore_case_ && (name == "upper" || name == "lower")) continue;
      if (take(str("[:", name, ":]"))) return out_ += members, Ok{};
      if (take(str("[:^", name, ":]"))) return all_but(members), Ok{};
    }
    return problem("an unsupported class name in [: :]");
  }

  // Within a class: the characters that are not `members`.
  void all_but(std::string_view members) {
    if (members.rfind("\\p") == 0) {
      out_ += str("\\P", members.substr(2));
    } else {
      out_ += str("[^", members, "]");
      extended_ = true;
    }
  }

  Status class_member() {
    for (const auto& [letter, members] : kSets) {
      const std::string_view here = letter == 'w' ? kPosixWord : members;
      if (take_escape(letter)) return out_ += here, Ok{};
      if (take_escape(upper(letter))) return all_but(here), Ok{};
    }
    if (peek() == '\\' && (peek(1) == 'p' || peek(1) == 'P')) return property(/*in_class=*/true);
    previous_ = '\0';
    GLINT_TRY_STATUS(class_character());
    // A minus sign between two characters is a range, at an end or before a set it is itself.
    if (peek() == '-' && peek(1) != ']' && at_ + 1 < in_.size() && peek(1) != '[' &&
        in_.substr(at_ + 1, 2) != "&&") {
      ++at_;
      out_ += '-';
      previous_ = '\0';
      return class_character();
    }
    return Ok{};
  }

  Status class_character() {
    if (take_escape('b')) return append_code_point('\b'), Ok{};
    if (peek() == '\\') return character_escape();
    return literal(next_code_point(in_, at_));
  }

  const std::string_view in_;
  std::size_t at_ = 0;
  std::string out_;
  std::optional<std::size_t> atom_;  // where in `out_` begins what a quantifier would repeat
  struct Group {
    std::size_t begin;  // in `out_`
    bool ignore_case;   // outside of it
  };
  std::vector<Group> open_;
  bool ignore_case_ = false;
  char previous_ = '\0';  // the character before, in lower case, where case is ignored
  bool extended_ = false;
};

}  // namespace

Result<Pcre2Pattern> translate_oniguruma(std::string_view pattern) {
  return Translator(pattern).run();
}

}  // namespace glint
