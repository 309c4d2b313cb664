// Python's text % values, with the fields that templates use: %s, %r, %d, %i, %f and %%.
#include <algorithm>

#include "base/str.h"
#include "text/template/jinja/characters.h"
#include "text/template/jinja/operations.h"

namespace glint::jinja {
namespace {

class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const std::string& text, const Value& values)
      : runtime_(runtime),
        text_(text),
        values_(values.is_tuple() ? values.items() : std::vector<Value>{values}),
        // Indexable values count as mappings, which need not be used up.
        may_be_left_(values.is_dict() || values.is_list() || values.is_undefined()) {}

  Result<Value> run() {
    while (at_ < text_.size()) {
      const std::size_t percent = std::min(text_.find('%', at_), text_.size());
      out_ += text_.substr(at_, percent - at_);
      at_ = percent + 1;
      if (percent < text_.size()) GLINT_TRY_STATUS(field());
    }
    if (used_ < values_.size() && !may_be_left_)
      return invalid("not all arguments converted during string formatting");
    return runtime_.make_string(std::move(out_));
  }

 private:
  static constexpr int kMaxWidth = 1000;

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  Result<int> number() {
    int value = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      value = value * 10 + (peek() - '0');
      if (value > kMaxWidth)
        return invalid(str("a width or precision of a format is too big: at most ", kMaxWidth));
    }
    return value;
  }

  Status field() {
    bool left = false, zero = false;
    for (; peek() == '-' || peek() == '0'; ++at_) {
      left = left || peek() == '-';
      zero = zero || peek() == '0';
    }
    GLINT_TRY(const int width, number());
    int precision = -1;
    if (peek() == '.') {
      ++at_;
      GLINT_TRY(precision, number());
    }
    if (at_ >= text_.size()) return invalid("incomplete format");
    const char type = text_[at_++];
    if (type == '%') return out_ += '%', Ok{};
    if (std::string_view("srdif").find(type) == std::string_view::npos) {
      return invalid(str("the format %", std::string(1, type),
                         " is not supported; there are %s, %r, %d, %i, %f and %%, with a width "
                         "and a precision"));
    }
    if (used_ == values_.size()) return invalid("not enough arguments for format string");
    GLINT_TRY(std::string text, convert(type, precision, values_[used_++]));
    const std::size_t length = count_code_points(text);
    const std::size_t missing = std::max(static_cast<std::size_t>(width), length) - length;
    const bool is_text = type == 's' || type == 'r';
    if (left) {
      text.append(missing, ' ');
    } else if (zero && !is_text) {
      text.insert(text.starts_with('-') ? 1 : 0, missing, '0');
    } else {
      text.insert(0, missing, ' ');
    }
    GLINT_TRY_STATUS(runtime_.budget.spend_bytes(text.size()));
    out_ += text;
    return Ok{};
  }

  Result<std::string> convert(char type, int precision, const Value& value) {
    if (type == 's' || type == 'r') {
      GLINT_TRY(std::string text,
                type == 's' ? to_text(runtime_, value) : to_repr(runtime_, value));
      if (precision >= 0) text.resize(byte_offset(text, static_cast<std::size_t>(precision)));
      return text;
    }
    if (value.is_undefined()) return undefined_error(value);
    if (!value.is_int() && !value.is_float()) {
      return invalid(str("%", std::string(1, type), " format: a real number is required, not ",
                         value.type_name()));
    }
    if (type == 'f') {
      const double number =
          value.is_float() ? value.as_float() : static_cast<double>(value.as_int());
      return formatted("%.*f", precision < 0 ? 6 : precision, number);
    }
    if (precision >= 0) return invalid("a precision of the format %d is not supported");
    if (value.is_int()) return std::to_string(value.as_int());
    if (!(value.as_float() > -0x1p63 && value.as_float() < 0x1p63)) return beyond_64_bits();
    return std::to_string(static_cast<Int>(value.as_float()));
  }

  Runtime& runtime_;
  const std::string_view text_;
  const std::vector<Value> values_;
  const bool may_be_left_;
  std::size_t at_ = 0, used_ = 0;
  std::string out_;
};

}  // namespace

Result<Value> format_percent(Runtime& runtime, const Value& text, const Value& values) {
  if (text.is_markup())
    return invalid("a text that the filter 'safe' made is not supported as a format");
  return PercentFormatter(runtime, text.text(), values).run();
}

}  // namespace glint::jinja
