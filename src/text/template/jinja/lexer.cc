#include "text/template/jinja/lexer.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>

#include "base/str.h"
#include "base/utf8.h"
#include "text/template/jinja/characters.h"

namespace glint::jinja {
namespace {

constexpr std::size_t kMaxSourceBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxDigits = 4300;  // Python's limit too

// "\r\n" and "\r" become "\n"; one newline at the end goes.
std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

Value parse_number(std::string_view text) {
  Int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (stop != end) return Value(std::strtod(std::string(text).c_str(), nullptr));
  return error == std::errc() ? Value(value) : Value(BigInt{std::string(text)});
}

// The code point that `size` hexadecimal digits at `at` say.
Result<char32_t> unescape_code(std::string_view literal, std::size_t at, std::size_t size) {
  const std::string_view digits = literal.substr(at, size);
  std::uint32_t code = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, code, 16);
  if (digits.size() != size || stop != end || error != std::errc())
    return invalid("truncated escape in a text");
  if (code >= 0x110000) return invalid("escape beyond U+10FFFF in a text");
  if (code >= 0xd800 && code < 0xe000)
    return invalid("surrogate in a text: write the character itself");
  return code;
}

// The inside of a string literal: \n, \x41, \u00e9 ... A backslash is not its last character.
Result<std::string> unescape(std::string_view literal) {
  static constexpr std::string_view kSimple = "'\"\\abfnrtv\n";
  static constexpr std::string_view kMeaning[] = {"'",  "\"", "\\", "\a", "\b", "\f",
                                                  "\n", "\r", "\t", "\v", ""};
  std::string out;
  out.reserve(literal.size());
  for (std::size_t at = 0; at < literal.size(); ++at) {
    if (literal[at] != '\\') {
      out += literal[at];
      continue;
    }
    const char c = literal[++at];
    const std::size_t size = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (const std::size_t simple = kSimple.find(c); simple != kSimple.npos) {
      out += kMeaning[simple];
    } else if (size > 0) {
      GLINT_TRY(const char32_t code, unescape_code(literal, at + 1, size));
      append_utf8(out, code);
      at += size;
    } else if (c == 'N' || is_digit(c) || static_cast<unsigned char>(c) >= 0x80) {
      return invalid(str("the escape \\", quoted(literal.substr(at, 1)),
                         " is not supported: write the character itself"));
    } else {
      out += '\\';  // an unknown escape stays
      out += c;
    }
  }
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  Result<std::vector<Token>> run() {
    while (at_ < source_.size()) GLINT_TRY_STATUS(data_and_tag());
    add(Token::kEnd, {});
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return source_.substr(at_); }
  bool looking_at(std::string_view text) const { return rest().starts_with(text); }
  char peek(std::size_t offset = 0) const {
    return at_ + offset < source_.size() ? source_[at_ + offset] : '\0';
  }

  // Moves to `to` and keeps line and column.
  void advance(std::size_t to) {
    for (; at_ < to; ++at_) {
      if (source_[at_] == '\n') {
        ++position_.line;
        position_.column = 1;
      } else if (!is_continuation(source_[at_])) {
        ++position_.column;
      }
    }
  }
  void skip_space() { advance(source_.size() - strip_left(rest()).size()); }

  Error fail(std::string message) const {
    return jinja::at(position_, invalid(std::move(message)));
  }

  void add(Token::Kind kind, std::string text, Value number = {}) {
    tokens_.push_back({kind, position_, std::move(text), std::move(number)});
  }

  // The text up to the next tag, and then the tag.
  Status data_and_tag() {
    std::size_t tag = at_;
    for (;; ++tag) {
      tag = source_.find('{', tag);
      if (tag == source_.npos || tag + 1 == source_.size()) {
        tag = source_.size();
        break;
      }
      if (source_[tag + 1] == '{' || source_[tag + 1] == '%' || source_[tag + 1] == '#') break;
    }
    const std::string_view data = source_.substr(at_, tag - at_);
    if (tag == source_.size()) {
      add_data(data);
      advance(tag);
      return Ok{};
    }
    const char type = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    const std::string_view kept = strip_before_tag(data, sign, type == '{', at_line_start_);
    if (!kept.empty()) add_data(kept);
    advance(tag);
    if (type == '#') return comment();
    if (type == '%' && raw_begin_size() > 0) return raw();
    add(type == '{' ? Token::kVariableBegin : Token::kBlockBegin, {});
    advance(tag + (sign == '-' || sign == '+' ? 3 : 2));
    return inside(type == '{');
  }

  // The token may begin with whitespace that is not in `text`: nobody asks for its position.
  void add_data(std::string_view text) { add(Token::kData, std::string(text)); }

  // lstrip_blocks: blanks between the start of a line and a tag go, unless it is {{ or {%+. "-"
  // takes all whitespace.
  static std::string_view strip_before_tag(std::string_view data, char sign, bool is_variable,
                                           bool at_line_start) {
    if (sign == '-') return strip_right(data);
    if (sign == '+' || is_variable) return data;
    const std::size_t newline = data.rfind('\n');
    if (newline == data.npos && !at_line_start) return data;
    const std::size_t line = newline == data.npos ? 0 : newline + 1;
    return strip_left(data.substr(line)).empty() ? data.substr(0, line) : data;
  }

  // Behind the two characters of a closing tag: "-" takes all whitespace, and a block or comment
  // one newline.
  void after_tag(bool strips_all, bool trims_newline) {
    const std::size_t end = at_;
    if (strips_all) {
      skip_space();
    } else if (trims_newline && peek() == '\n') {
      advance(at_ + 1);
    }
    at_line_start_ = at_ > end && source_[at_ - 1] == '\n';
  }

  // Is `text` here, with a sign in front or not? The size with the sign, or 0.
  std::size_t closing_size(std::string_view text, bool plus_too, bool* strips) const {
    *strips = peek() == '-' && rest().substr(1).starts_with(text);
    if (*strips || (plus_too && peek() == '+' && rest().substr(1).starts_with(text)))
      return text.size() + 1;
    return looking_at(text) ? text.size() : 0;
  }

  Status comment() {
    const Position start = position_;
    std::size_t from = at_ + 2;
    if (from < source_.size() && (source_[from] == '-' || source_[from] == '+')) ++from;
    const std::size_t end = source_.find("#}", from);
    if (from == source_.size()) return advance(from), Ok{};  // jinja2 does not mind
    if (end == source_.npos) return jinja::at(start, invalid("Missing end of comment tag"));
    const char sign = end > from ? source_[end - 1] : '\0';
    advance(end + 2);
    after_tag(sign == '-', sign != '+');
    return Ok{};
  }

  // The size of "{%- raw -%}" here, 0 if it is another tag.
  std::size_t raw_begin_size() const {
    std::string_view text = rest().substr(2);
    if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
    text = strip_left(text);
    if (!text.starts_with("raw")) return 0;
    text = strip_left(text.substr(3));
    if (text.starts_with("-%}")) return rest().size() - strip_left(text.substr(3)).size();
    return text.starts_with("%}") ? rest().size() - text.size() + 2 : 0;
  }

  Status raw() {
    const Position start = position_;
    const std::size_t opening_end = at_ + raw_begin_size();
    const bool opens_line = source_[opening_end - 1] == '\n';
    if (opening_end == source_.size()) return advance(opening_end), Ok{};  // jinja2 does not mind
    for (std::size_t tag = source_.find("{%", opening_end); tag != source_.npos;
         tag = source_.find("{%", tag + 1)) {
      std::string_view text = source_.substr(tag + 2);
      const char sign = text.empty() ? '\0' : text[0];
      if (sign == '-' || sign == '+') text.remove_prefix(1);
      text = strip_left(text);
      if (!text.starts_with("endraw")) continue;
      text = strip_left(text.substr(6));
      const char closing = text.starts_with("-%}") ? '-' : text.starts_with("+%}") ? '+' : '\0';
      if (!closing && !text.starts_with("%}")) continue;
      advance(opening_end);
      const std::string_view data = source_.substr(opening_end, tag - opening_end);
      const std::string_view kept = strip_before_tag(data, sign, false, opens_line);
      if (!kept.empty()) add_data(kept);
      advance(source_.size() - text.size() + (closing ? 3 : 2));
      after_tag(closing == '-', closing == '\0');
      return Ok{};
    }
    return jinja::at(start, invalid("Missing end of raw directive"));
  }

  // The tokens of a tag, and its end.
  Status inside(bool is_variable) {
    std::string open;  // the brackets that are not closed
    for (;;) {
      skip_space();
      if (at_ == source_.size()) return Ok{};  // the parser will miss the end
      bool strips = false;
      const std::size_t closing =
          open.empty() ? closing_size(is_variable ? "}}" : "%}", !is_variable, &strips) : 0;
      if (closing > 0) {
        const bool plus = peek() == '+';
        add(is_variable ? Token::kVariableEnd : Token::kBlockEnd, {});
        advance(at_ + closing);
        after_tag(strips, !is_variable && !plus);
        return Ok{};
      }
      GLINT_TRY_STATUS(token(open));
    }
  }

  Status token(std::string& open) {
    if (is_digit(peek())) {
      const std::size_t size = number_size();
      if (size > kMaxDigits) return fail(str("a number of more than ", kMaxDigits, " digits"));
      const std::string_view text = rest().substr(0, size);
      const char after = peek(size);
      if (after == '_' || std::isalpha(static_cast<unsigned char>(after)) ||
          (text.size() > 1 && text[0] == '0' && is_digit(text[1]))) {
        return fail("numbers are not supported but in plain decimal digits");
      }
      add(Token::kNumber, std::string(text), parse_number(text));
      advance(at_ + size);
      return Ok{};
    }
    if (peek() == '\'' || peek() == '"') return string_literal();
    if (const std::size_t size = name_size()) {
      add(Token::kName, std::string(rest().substr(0, size)));
      advance(at_ + size);
      return Ok{};
    }
    return operator_sign(open);
  }

  std::size_t digits_size(std::size_t offset) const {
    std::size_t size = 0;
    while (is_digit(peek(offset + size))) ++size;
    return size;
  }

  // An integer or float in decimal; only zeros may follow a zero.
  std::size_t number_size() const {
    std::size_t size = digits_size(0);
    const std::size_t fraction = peek(size) == '.' ? digits_size(size + 1) : 0;
    if (fraction > 0) size += 1 + fraction;
    if ((peek(size) | 0x20) == 'e') {
      const bool has_sign = peek(size + 1) == '+' || peek(size + 1) == '-';
      const std::size_t digits = digits_size(size + 1 + has_sign);
      if (digits > 0) size += 1 + has_sign + digits;
    }
    return size;
  }

  std::size_t name_size() const {
    std::size_t size = 0;
    while (std::isalnum(static_cast<unsigned char>(peek(size))) || peek(size) == '_') ++size;
    return size;
  }

  Status string_literal() {
    const char quote = peek();
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size())
      return fail("unexpected char " + std::string(1, quote) + ": a text without its end");
    Result<std::string> text = unescape(source_.substr(at_ + 1, end - at_ - 1));
    if (!text.ok()) return fail(text.error().message);
    add(Token::kString, std::move(text).value());
    advance(end + 1);
    return Ok{};
  }

  Status operator_sign(std::string& open) {
    static constexpr std::string_view kSigns[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                  "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                  ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    const auto* sign = std::find_if(std::begin(kSigns), std::end(kSigns),
                                    [&](std::string_view sign) { return looking_at(sign); });
    if (static_cast<unsigned char>(peek()) >= 0x80)
      return fail("names outside of ASCII are not supported");
    if (sign == std::end(kSigns)) return fail("unexpected char " + quoted(rest().substr(0, 1)));
    if (*sign == "(" || *sign == "[" || *sign == "{")
      open += *sign == "(" ? ')' : *sign == "[" ? ']' : '}';
    if (*sign == ")" || *sign == "]" || *sign == "}") {
      if (open.empty()) return fail(str("unexpected '", *sign, "'"));
      if (open.back() != (*sign)[0])
        return fail(str("unexpected '", *sign, "', expected '", open.back(), "'"));
      open.pop_back();
    }
    add(Token::kOperator, std::string(*sign));
    advance(at_ + sign->size());
    return Ok{};
  }

  const std::string_view source_;
  std::size_t at_ = 0;
  Position position_;
  bool at_line_start_ = true;  // did the last tag end with a newline?
  std::vector<Token> tokens_;
};

}  // namespace

Error at(Position position, Error error) {
  error.message.insert(0, str("line ", position.line, ", column ", position.column, ": "));
  return error;
}

std::string Token::description() const {
  switch (kind) {
    case kData:
      return "template data / text";
    case kVariableBegin:
      return "begin of print statement";
    case kVariableEnd:
      return "end of print statement";
    case kBlockBegin:
      return "begin of statement block";
    case kBlockEnd:
      return "end of statement block";
    case kString:
      return "string";
    case kNumber:
      return "number";
    case kEnd:
      return "end of template";
    default:
      return text;
  }
}

Result<std::vector<Token>> tokenize(std::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    return invalid(
        str("the template has ", source.size(), " bytes; at most ", kMaxSourceBytes, " are read"));
  }
  if (!is_valid_utf8(source)) return invalid("the template is not valid UTF-8");
  const std::string normalized = normalize_newlines(source);
  return Lexer(normalized).run();
}

}  // namespace glint::jinja
