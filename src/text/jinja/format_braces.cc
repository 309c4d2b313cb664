// str.format, and format() of one value.
#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "base/str.h"
#include "text/jinja/builtins.h"
#include "text/jinja/characters.h"
#include "text/jinja/format.h"
#include "text/jinja/methods.h"
#include "text/jinja/operations.h"
#include "text/unicode.h"

namespace glint::jinja {
namespace {

// [[fill]align][sign][#][0][width][grouping][.precision][type]
struct FormatSpec {
  std::string fill = " ";
  char align = '\0';  // < > ^ =, or the type's own
  NumberStyle style = {.type = '\0'};
  bool has_sign = false;
  Int width = 0;
};

bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

Result<Int> read_number(std::string_view text, std::size_t& at) {
  Int value = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    value = value * 10 + (text[at] - '0');
    if (value > INT32_MAX) return invalid("Too many decimal digits in format string");
  }
  return value;
}

Result<FormatSpec> parse_spec(std::string_view text) {
  FormatSpec spec;
  std::size_t at = 0;
  const auto peek = [&] { return at < text.size() ? text[at] : '\0'; };
  const std::size_t first = text.empty() ? 0 : byte_offset(text, 1);
  if (first > 0 && first < text.size() && is_align(text[first])) {
    spec.fill = std::string(text.substr(0, first));
    spec.align = text[first];
    at = first + 1;
  } else if (is_align(peek())) {
    spec.align = text[at++];
  }
  if (peek() == '+' || peek() == '-' || peek() == ' ') {
    spec.style.sign = text[at++];
    spec.has_sign = true;
  }
  if (peek() == '#') spec.style.alternate = true, ++at;
  if (peek() == '0' && !is_align(spec.align)) {
    spec.fill = "0";
    spec.align = '0';  // "=" for numbers, "<" for texts
    ++at;
  }
  GLINT_TRY(spec.width, read_number(text, at));
  if (peek() == ',' || peek() == '_') spec.style.grouping = text[at++];
  if (peek() == '.') {
    const std::size_t start = ++at;
    GLINT_TRY(const Int precision, read_number(text, at));
    if (at == start) return invalid("Format specifier missing precision");
    spec.style.precision = static_cast<int>(precision);
  }
  if (at < text.size()) spec.style.type = text[at++];
  if (at < text.size()) return invalid("Invalid format specifier");
  return spec;
}

Error unknown_code(const FormatSpec& spec, const Value& value) {
  return invalid(str("Unknown format code ", quoted(std::string_view(&spec.style.type, 1)),
                     " for object of type '", value.type_name(), "'"));
}

Result<std::string> align_text(Runtime& runtime, const FormatSpec& spec, std::string text,
                               char otherwise) {
  const char align = spec.align == '\0' || spec.align == '0' ? otherwise : spec.align;
  const Value value(std::move(text));
  if (align == '^') {
    // format() puts the odd character right, unlike str.center.
    const Int missing = std::max<Int>(spec.width - static_cast<Int>(value.as_str().length), 0);
    GLINT_TRY(std::string left,
              pad(runtime, value, spec.width - (missing + 1) / 2, spec.fill, Side::kLeft));
    return pad(runtime, Value(std::move(left)), spec.width, spec.fill, Side::kRight);
  }
  return pad(runtime, value, spec.width, spec.fill, align == '<' ? Side::kRight : Side::kLeft);
}

Result<std::string> align_number(Runtime& runtime, const FormatSpec& spec,
                                 const FormattedNumber& number) {
  if (spec.align != '=' && spec.align != '0') {
    return align_text(runtime, spec, number.prefix + number.digits, '>');
  }
  if (spec.style.grouping && spec.align == '0')
    return invalid("zeros between groups of digits are not supported");
  GLINT_TRY(const std::string digits,
            pad(runtime, Value(number.digits), spec.width - static_cast<Int>(number.prefix.size()),
                spec.fill, Side::kLeft));
  return number.prefix + digits;
}

Result<std::string> format_text(Runtime& runtime, const FormatSpec& spec, const Value& value) {
  if (spec.style.type != '\0' && spec.style.type != 's') return unknown_code(spec, value);
  if (spec.has_sign) return invalid("Sign not allowed in string format specifier");
  if (spec.style.alternate)
    return invalid("Alternate form (#) not allowed in string format specifier");
  if (spec.align == '=') return invalid("'=' alignment not allowed in string format specifier");
  if (spec.style.grouping)
    return invalid(str("Cannot specify '", spec.style.grouping, "' with 's'."));
  std::string text = value.text();
  if (spec.style.precision >= 0)
    text.resize(byte_offset(text, static_cast<std::size_t>(spec.style.precision)));
  return align_text(runtime, spec, std::move(text), '<');
}

Result<std::string> format_number(Runtime& runtime, FormatSpec spec, const Value& value) {
  const char type = spec.style.type;
  const bool is_float_type =
      type != '\0' && std::string_view("eEfFgG%").find(type) != std::string_view::npos;
  if (!value.is_float() && !is_float_type) {
    if (type != '\0' && std::string_view("bcdoxXn").find(type) == std::string_view::npos)
      return unknown_code(spec, value);
    if (spec.style.precision >= 0)
      return invalid("Precision not allowed in integer format specifier");
    if (type == 'c') {
      if (!value.is_int() || value.as_int() < 0 || value.as_int() >= 0x110000 ||
          (value.as_int() >= 0xd800 && value.as_int() < 0xe000)) {
        return invalid("%c arg not in range(0x110000)");
      }
      std::string text;
      append_utf8(text, static_cast<char32_t>(value.as_int()));
      return align_text(runtime, spec, std::move(text), '<');
    }
    GLINT_TRY(const FormattedNumber number, format_integer(value, spec.style));
    return align_number(runtime, spec, number);
  }
  if (type != '\0' && type != 'n' && !is_float_type) return unknown_code(spec, value);
  const double number = *to_double(value);
  FormattedNumber formatted;
  if (type == '\0' && spec.style.precision < 0) {
    std::string text = format_double(number);
    const bool negative = text[0] == '-';
    formatted = {negative                 ? "-"
                 : spec.style.sign == '-' ? ""
                                          : std::string(1, spec.style.sign),
                 text.substr(negative)};
    if (spec.style.grouping && std::isfinite(number))
      group_digits(formatted.digits, spec.style.grouping, 3);
  } else {
    spec.style.keeps_point = type == '\0';
    if (type == '\0' || type == 'n') spec.style.type = 'g';
    GLINT_TRY(formatted, format_float(number, spec.style));
  }
  return align_number(runtime, spec, formatted);
}

// format(value, spec)
Result<std::string> format_value(Runtime& runtime, const Value& value, std::string_view text) {
  if (text.empty()) return to_text(runtime, value);
  if (!value.is_string() && !value.is_number()) {
    return invalid("unsupported format string passed to " + value.type_name() + ".__format__");
  }
  GLINT_TRY(const FormatSpec spec, parse_spec(text));
  return value.is_string() ? format_text(runtime, spec, value)
                           : format_number(runtime, spec, value);
}

class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const Arguments& arguments, bool is_markup)
      : runtime_(runtime), arguments_(arguments), is_markup_(is_markup) {}

  // Fields may stand in the format of a field, but no deeper.
  Result<std::string> run(std::string_view text, int depth) {
    if (depth == 0) return invalid("Max string recursion exceeded");
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      const char c = text[at];
      if (c != '{' && c != '}') {
        const std::size_t end = std::min(text.find_first_of("{}", at), text.size());
        GLINT_TRY_STATUS(runtime_.budget.spend_bytes(end - at));
        out += text.substr(at, end - at);
        at = end;
      } else if (at + 1 < text.size() && text[at + 1] == c) {
        out += c;
        at += 2;
      } else if (c == '}') {
        return invalid("Single '}' encountered in format string");
      } else {
        GLINT_TRY(const std::size_t end, field_end(text, at + 1));
        GLINT_TRY(const std::string field, format_field(text.substr(at + 1, end - at - 1), depth));
        out += field;
        at = end + 1;
      }
    }
    return out;
  }

 private:
  static Result<std::size_t> field_end(std::string_view text, std::size_t at) {
    for (int depth = 1; at < text.size(); ++at) {
      if (text[at] == '[' && depth == 1) {  // braces in an index are part of it
        at = std::min(text.find(']', at), text.size() - 1);
      }
      depth += (text[at] == '{') - (text[at] == '}');
      if (depth == 0) return at;
    }
    return invalid("expected '}' before end of string");
  }

  Result<std::string> format_field(std::string_view field, int depth) {
    const std::size_t name_end = std::min(find_name_end(field), field.size());
    GLINT_TRY(Value value, find_value(field.substr(0, name_end)));
    std::string_view rest = field.substr(name_end);
    if (rest.starts_with('!')) {
      const char conversion = rest.size() > 1 ? rest[1] : '\0';
      GLINT_TRY(value, convert(value, conversion));
      rest.remove_prefix(2);
      if (!rest.empty() && rest[0] != ':')
        return invalid("expected ':' after conversion specifier");
    }
    std::string spec;
    if (!rest.empty()) {
      GLINT_TRY(spec, run(rest.substr(1), depth - 1));
    }
    GLINT_TRY(std::string text, format_value(runtime_, value, spec));
    return is_markup_ && !value.is_markup() ? escape_html(text) : text;
  }

  static std::size_t find_name_end(std::string_view field) {
    for (std::size_t at = 0; at < field.size(); ++at) {
      if (field[at] == '[') at = std::min(field.find(']', at), field.size());
      if (at < field.size() && (field[at] == '!' || field[at] == ':')) return at;
    }
    return field.size();
  }

  Result<Value> convert(const Value& value, char conversion) {
    if (conversion == 's') {
      GLINT_TRY(std::string text, to_text(runtime_, value));
      return Value(std::move(text));
    }
    if (conversion != 'r' && conversion != 'a') {
      return invalid(
          str("Unknown conversion specifier ", quoted(std::string_view(&conversion, 1))));
    }
    GLINT_TRY(std::string text, to_repr(runtime_, value));
    return Value(conversion == 'a' ? escape_non_ascii(text) : std::move(text));
  }

  // first, first.attribute, first[key] ...
  Result<Value> find_value(std::string_view name) {
    std::size_t at = std::min(name.find_first_of(".["), name.size());
    GLINT_TRY(Value value, first_value(name.substr(0, at)));
    while (at < name.size()) {
      if (name[at] == '.') {
        const std::size_t end = std::min(name.find_first_of(".[", at + 1), name.size());
        if (end == at + 1) return invalid("Empty attribute in format string");
        GLINT_TRY(value, get_attribute(runtime_, value, name.substr(at + 1, end - at - 1)));
        at = end;
      } else if (name[at] == '[') {
        const std::size_t end = name.find(']', at);
        if (end == name.npos) return invalid("Missing ']' in format string");
        if (end == at + 1) return invalid("Empty attribute in format string");
        GLINT_TRY(value, get_item(runtime_, value, key_of(name.substr(at + 1, end - at - 1))));
        at = end + 1;
      } else {
        return invalid("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  static bool is_number(std::string_view text) {
    return !text.empty() && text.size() < 10 &&
           std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  }

  static Value key_of(std::string_view text) {
    return is_number(text) ? Value(static_cast<Int>(std::stol(std::string(text)))) : Value(text);
  }

  Result<Value> first_value(std::string_view name) {
    if (!name.empty() && !is_number(name)) {
      GLINT_TRY_STATUS(runtime_.budget.spend_steps(arguments_.named.size() / 8));
      for (const auto& [key, value] : arguments_.named) {
        if (key == name) return value;
      }
      return invalid(string_repr(name));
    }
    const Numbering numbering = name.empty() ? kAutomatic : kManual;
    if (numbering_ != kUnknown && numbering_ != numbering) {
      return invalid(
          numbering == kAutomatic
              ? "cannot switch from manual field specification to automatic field numbering"
              : "cannot switch from automatic field numbering to manual field specification");
    }
    numbering_ = numbering;
    const std::size_t index =
        name.empty() ? next_++ : static_cast<std::size_t>(key_of(name).as_int());
    if (index < arguments_.positional.size()) return arguments_.positional[index];
    return invalid(str("Replacement index ", index, " out of range for positional args tuple"));
  }

  enum Numbering { kUnknown, kAutomatic, kManual };

  Runtime& runtime_;
  const Arguments& arguments_;
  const bool is_markup_;
  Numbering numbering_ = kUnknown;
  std::size_t next_ = 0;
};

}  // namespace

Result<Value> format_braces(Runtime& runtime, const Value& text, const Arguments& arguments) {
  BraceFormatter formatter(runtime, arguments, text.is_markup());
  GLINT_TRY(std::string out, formatter.run(text.text(), 2));
  return runtime.make_string(std::move(out), text.is_markup());
}

}  // namespace glint::jinja
