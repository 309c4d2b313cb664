// str() and repr() of values.
#include "base/json.h"
#include "base/str.h"
#include "base/utf8.h"
#include "text/template/jinja/characters.h"
#include "text/template/jinja/operations.h"

namespace glint::jinja {
namespace {

// Appends reprs. The output limit bounds what values with shared parts can print.
class Printer {
 public:
  explicit Printer(Runtime& runtime) : runtime_(runtime) {}

  Status print(const Value& value) {
    GLINT_TRY_STATUS(runtime_.budget.spend_steps(1));
    if (out.size() > runtime_.budget.limits().max_output_bytes) {
      return invalid(
          str("the text of a value exceeds ", runtime_.budget.limits().max_output_bytes, " bytes"));
    }
    return print_unchecked(value);
  }

  std::string out;

 private:
  Status print_unchecked(const Value& value) {
    switch (value.kind()) {
      case Kind::kUndefined:
        out += "Undefined";
        break;
      case Kind::kNone:
        out += "None";
        break;
      case Kind::kBool:
        out += value.as_bool() ? "True" : "False";
        break;
      case Kind::kInt:
        out += std::to_string(value.as_int());
        break;
      case Kind::kBigInt:
        out += value.big_digits();
        break;
      case Kind::kFloat:
        out += format_double(value.as_float());
        break;
      case Kind::kString:
        out += value.is_markup() ? "Markup(" + string_repr(value.text()) + ")"
                                 : string_repr(value.text());
        break;
      case Kind::kItems:
        return print_items(value);
      case Kind::kDict:
        return print_dict(value.as_dict());
      case Kind::kObject:
        return not_printed(value);
    }
    return Ok{};
  }

  static Error not_printed(const Value& value) {
    return invalid("printing a value of type " + value.type_name() + " is not supported");
  }

  Status print_items(const Value& value) {
    const Items::Type type = value.as_items().type;
    if (type == Items::kRange || type == Items::kGenerator) return not_printed(value);
    const bool is_view = type != Items::kList && type != Items::kTuple;
    out += is_view ? value.type_name() + "([" : type == Items::kTuple ? "(" : "[";
    const std::vector<Value>& items = value.items();
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i) out += ", ";
      GLINT_TRY_STATUS(print(items[i]));
    }
    if (type == Items::kTuple && items.size() == 1) out += ',';
    out += is_view ? "])" : type == Items::kTuple ? ")" : "]";
    return Ok{};
  }

  Status print_dict(const Dict& dict) {
    out += '{';
    for (const Dict::Entry& entry : dict.entries()) {
      if (&entry != &dict.entries().front()) out += ", ";
      GLINT_TRY_STATUS(print(entry.key));
      out += ": ";
      GLINT_TRY_STATUS(print(entry.value));
    }
    out += '}';
    return Ok{};
  }

  Runtime& runtime_;
};

}  // namespace

std::string string_repr(std::string_view text) {
  const bool has_single = text.find('\'') != text.npos, has_double = text.find('"') != text.npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    const char32_t c = next_code_point(text, at);
    if (c == '\\' || c == static_cast<unsigned char>(quote)) {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (is_printable(c)) {
      out += text.substr(start, at - start);
    } else {
      const char* format = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
      out += formatted(format, static_cast<unsigned>(c));
    }
  }
  return out + quote;
}

Result<std::string> to_repr(Runtime& runtime, const Value& value) {
  const Runtime::Nesting nesting(runtime);
  GLINT_TRY_STATUS(nesting.check());
  Printer printer(runtime);
  GLINT_TRY_STATUS(printer.print(value));
  GLINT_TRY_STATUS(runtime.budget.spend_bytes(printer.out.size()));
  return std::move(printer.out);
}

Result<std::string> to_text(Runtime& runtime, const Value& value) {
  if (value.is_string()) return value.text();
  if (value.is_undefined()) return std::string();
  return to_repr(runtime, value);
}

}  // namespace glint::jinja
