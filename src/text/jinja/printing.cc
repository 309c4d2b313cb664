// str() and repr() of values.
#include "base/json.h"
#include "base/str.h"
#include "text/jinja/characters.h"
#include "text/jinja/operations.h"
#include "text/unicode.h"

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
      case Kind::kList:
      case Kind::kTuple:
        return print_items(value.items(), value.is_tuple());
      case Kind::kDict:
        return print_dict(value.as_dict());
      case Kind::kObject: {
        GLINT_TRY(const std::string text, value.object()->repr(runtime_));
        out += text;
      }
    }
    return Ok{};
  }

  Status print_items(const std::vector<Value>& items, bool is_tuple) {
    out += is_tuple ? '(' : '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i) out += ", ";
      GLINT_TRY_STATUS(print(items[i]));
    }
    if (is_tuple && items.size() == 1) out += ',';
    out += is_tuple ? ')' : ']';
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

void append_escaped(std::string& out, char32_t c) {
  const char* format = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
  out += formatted(format, static_cast<unsigned>(c));
}

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
    } else if ((c >= 0x20 && c < 0x7f) || (c >= 0x7f && in_class(kPrintable, c))) {
      out += text.substr(start, at - start);
    } else {
      append_escaped(out, c);
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

Result<Value> escape(Runtime& runtime, const Value& value) {
  if (value.is_markup()) return value;
  GLINT_TRY(const std::string text, to_text(runtime, value));
  return runtime.make_string(escape_html(text), true);
}

Result<std::string> Object::repr(Runtime&) { return "<" + module() + type_name() + " object>"; }

Result<std::string> Namespace::repr(Runtime& runtime) {
  GLINT_TRY(const Value attributes, runtime.make_dict(attributes_));
  GLINT_TRY(const std::string text, to_repr(runtime, attributes));
  return "<Namespace " + text + ">";
}

}  // namespace glint::jinja
