// Python's text % values.
#include <algorithm>
#include <cmath>

#include "base/str.h"
#include "text/jinja/characters.h"
#include "text/jinja/format.h"
#include "text/jinja/functions.h"
#include "text/jinja/methods.h"
#include "text/jinja/operations.h"
#include "text/unicode.h"

namespace glint::jinja {
namespace {

class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const Value& text, const Value& values)
      : runtime_(runtime),
        text_(text.text()),
        is_markup_(text.is_markup()),
        values_(values),
        // What can be indexed counts as a mapping, and need not be used up.
        is_mapping_(values.is_dict() || values.is_list() || values.is_undefined() ||
                    values.object_as<Range>()) {}

  Result<Value> run() {
    while (at_ < text_.size()) {
      const std::size_t percent = std::min(text_.find('%', at_), text_.size());
      GLINT_TRY_STATUS(append(text_.substr(at_, percent - at_)));
      at_ = percent + 1;
      if (percent < text_.size()) GLINT_TRY_STATUS(field());
    }
    const bool left_over = values_.is_tuple() ? used_ < values_.items().size() : used_ == 0;
    if (left_over && !is_mapping_)
      return invalid("not all arguments converted during string formatting");
    return Value(std::move(out_), is_markup_);
  }

 private:
  struct Field {
    bool left = false, zero = false;
    NumberStyle style;
    Int width = 0;
    const Value* value = nullptr;  // of a %(name)s
  };

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  Status append(std::string_view text) {
    GLINT_TRY_STATUS(runtime_.budget.spend_bytes(text.size()));
    out_ += text;
    return Ok{};
  }

  Result<Value> next_value() {
    if (values_.is_tuple()) {
      if (used_ < values_.items().size()) return values_.items()[used_++];
    } else if (used_ == 0) {
      ++used_;
      return values_;
    }
    return invalid("not enough arguments for format string");
  }

  // A number in the text, or "*": the next value.
  Result<Int> number() {
    if (peek() == '*') {
      ++at_;
      GLINT_TRY(const Value value, next_value());
      if (!value.is_int()) return invalid("* wants int");
      return value.as_int();
    }
    Int value = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      value = value * 10 + (peek() - '0');
      if (value > INT32_MAX) return invalid("width or precision too big");
    }
    return value;
  }

  Status key(Field& field) {
    if (!values_.is_dict()) return invalid("format requires a mapping");
    const std::size_t start = ++at_;
    for (int depth = 1; depth > 0; ++at_) {
      if (at_ >= text_.size()) return invalid("incomplete format key");
      depth += (text_[at_] == '(') - (text_[at_] == ')');
    }
    const std::string_view name = text_.substr(start, at_ - 1 - start);
    field.value = values_.as_dict().find(name);
    if (!field.value) return invalid(string_repr(name));
    return Ok{};
  }

  Status field() {
    Field field;
    if (peek() == '(') GLINT_TRY_STATUS(key(field));
    for (;; ++at_) {
      const char c = peek();
      if (c == '-') {
        field.left = true;
      } else if (c == '0') {
        field.zero = true;
      } else if (c == '#') {
        field.style.alternate = true;
      } else if (c == '+' || (c == ' ' && field.style.sign != '+')) {
        field.style.sign = c;
      } else if (c != ' ') {
        break;
      }
    }
    GLINT_TRY(field.width, number());
    if (field.width < 0) {
      field.left = true;
      field.width = field.width == INT64_MIN ? INT64_MAX : -field.width;
    }
    if (peek() == '.') {
      ++at_;
      GLINT_TRY(const Int precision, number());
      field.style.precision = static_cast<int>(std::clamp<Int>(precision, 0, INT32_MAX));
    }
    if (peek() == 'l' || peek() == 'h' || peek() == 'L') ++at_;
    if (at_ >= text_.size()) return invalid("incomplete format");
    field.style.type = text_[at_++];
    return convert(field);
  }

  Status convert(Field& field) {
    const char type = field.style.type;
    if (type == '%') return append("%");
    Value value;
    if (field.value) {
      value = *field.value;
    } else {
      GLINT_TRY(value, next_value());
    }
    switch (type) {
      case 's':
      case 'r':
      case 'a':
        return text_field(field, value);
      case 'c':
        return character_field(field, value);
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return integer_field(field, value);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return float_field(field, value);
      default:
        return invalid(str("unsupported format character ", quoted(std::string_view(&type, 1))));
    }
  }

  Status text_field(const Field& field, const Value& value) {
    std::string text;
    if (field.style.type == 's') {
      GLINT_TRY(text, to_text(runtime_, value));
    } else {
      GLINT_TRY(text, to_repr(runtime_, value));
      if (field.style.type == 'a') text = escape_non_ascii(text);
    }
    if (is_markup_ && !value.is_markup()) text = escape_html(text);
    const int precision = field.style.precision;
    if (precision >= 0) text.resize(byte_offset(text, static_cast<std::size_t>(precision)));
    return padded(field, text);
  }

  Status character_field(const Field& field, const Value& value) {
    if (value.is_string() && value.as_str().length == 1) return padded(field, value.text());
    if (!value.is_int()) return invalid("%c requires int or char");
    const Int c = value.as_int();
    if (c < 0 || c >= 0x110000 || (c >= 0xd800 && c < 0xe000))
      return invalid("%c arg not in range(0x110000)");
    std::string text;
    append_utf8(text, static_cast<char32_t>(c));
    return padded(field, text);
  }

  Status integer_field(Field& field, const Value& value) {
    const bool decimal =
        field.style.type == 'd' || field.style.type == 'i' || field.style.type == 'u';
    if (value.is_undefined()) return undefined_error(value);
    Value whole = value;
    if (decimal && value.is_float()) {
      if (std::isnan(value.as_float())) return invalid("cannot convert float NaN to integer");
      if (std::fabs(value.as_float()) >= 0x1p63) return beyond_64_bits();
      whole = Value(static_cast<Int>(value.as_float()));
    }
    if (!whole.is_int() && whole.kind() != Kind::kBigInt) {
      return invalid(str("%", field.style.type,
                         " format: ", decimal ? "a real number" : "an integer",
                         " is required, not ", value.type_name()));
    }
    if (field.style.precision > kMaxPrecision)
      return invalid(str("precision ", field.style.precision, " is too large"));
    GLINT_TRY(const FormattedNumber number, format_integer(whole, field.style));
    return padded(field, number);
  }

  Status float_field(const Field& field, const Value& value) {
    if (value.is_undefined()) return undefined_error(value);
    const std::optional<double> number = to_double(value);
    if (!number) return invalid("must be real number, not " + value.type_name());
    GLINT_TRY(const FormattedNumber formatted, format_float(*number, field.style));
    return padded(field, formatted);
  }

  Status padded(const Field& field, const FormattedNumber& number) {
    if (!field.zero || field.left) return padded(field, number.prefix + number.digits);
    GLINT_TRY(const std::string digits,
              pad(runtime_, Value(number.digits),
                  field.width - static_cast<Int>(number.prefix.size()), "0", Side::kLeft));
    return append(number.prefix + digits);
  }

  Status padded(const Field& field, const std::string& text) {
    GLINT_TRY(const std::string wide, pad(runtime_, Value(text), field.width, " ",
                                          field.left ? Side::kRight : Side::kLeft));
    return append(wide);
  }

  Runtime& runtime_;
  const std::string_view text_;
  const bool is_markup_;
  const Value& values_;
  const bool is_mapping_;
  std::string out_;
  std::size_t at_ = 0;
  std::size_t used_ = 0;  // of the values
};

}  // namespace

Result<Value> format_percent(Runtime& runtime, const Value& text, const Value& values) {
  return PercentFormatter(runtime, text, values).run();
}

}  // namespace glint::jinja
