// Methods of texts.
#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/characters.h"
#include "text/jinja/format.h"
#include "text/jinja/functions.h"
#include "text/jinja/methods.h"
#include "text/jinja/operations.h"
#include "text/unicode.h"

namespace glint::jinja {
namespace {

Result<Value> text_like(Runtime& runtime, const Value& self, std::string text) {
  return runtime.make_string(std::move(text), self.is_markup());
}

// Methods without arguments.
template <std::string (*kChange)(std::string_view)>
Result<Value> change(Runtime& runtime, const Value& self, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("str method", arguments, {}));
  GLINT_TRY_STATUS(runtime.budget.spend_reading(self.text().size()));
  return text_like(runtime, self, kChange(self.text()));
}

template <bool (*kAsk)(std::string_view)>
Result<Value> ask(Runtime& runtime, const Value& self, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("str method", arguments, {}));
  GLINT_TRY_STATUS(runtime.budget.spend_reading(self.text().size()));
  return Value(kAsk(self.text()));
}

template <const std::span<const CodePointRange>* kClass>
bool all_in(std::string_view text) {
  return all_in_class(*kClass, text);
}

bool is_alnum(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    if (!in_class(kAlpha, c) && !in_class(kNumeric, c)) return false;
  }
  return !text.empty();
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool is_printable(std::string_view text) { return text.empty() || all_in<&kPrintable>(text); }

bool is_identifier(std::string_view text) {
  if (text.empty()) return false;
  const std::size_t first = byte_offset(text, 1);
  return all_in<&kIdentifierStart>(text.substr(0, first)) &&
         (first == text.size() || all_in<&kIdentifierPart>(text.substr(first)));
}

template <bool kLeft, bool kRight>
Result<Value> strip(Runtime& runtime, const Value& self, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("strip", arguments, {"chars?"}));
  std::string_view text = self.text();
  if (bound.get(0, Value()).is_none()) {
    if (kLeft) text = strip_left(text);
    if (kRight) text = strip_right(text);
  } else {
    GLINT_TRY(const std::string chars, require_text(*bound[0], "strip arg"));
    GLINT_TRY_STATUS(runtime.budget.spend_reading(chars.size()));
    if (kLeft) text = strip_left(text, chars);
    if (kRight) text = strip_right(text, chars);
  }
  GLINT_TRY_STATUS(runtime.budget.spend_reading(self.text().size() - text.size()));
  return text_like(runtime, self, std::string(text));
}

// The part of a text that find, count and startswith look at: text[start:end].
struct Window {
  std::string_view text;
  Int first;        // its first character's index
  bool is_reached;  // false: start lies behind the end of the text, where not even "" is found
};

Result<Window> window(Runtime& runtime, const Value& self, const Value& start, const Value& end) {
  if (start.is_none() && end.is_none()) return Window{self.text(), 0, true};
  const Str& text = self.as_str();
  const Int size = static_cast<Int>(text.length);
  Int first = 0, last = size;
  if (!start.is_none()) {
    GLINT_TRY(first, require_int(start));
  }
  if (!end.is_none()) {
    GLINT_TRY(last, require_int(end));
  }
  if (first < 0) first = std::max<Int>(first + size, 0);
  if (last < 0) last = std::max<Int>(last + size, 0);
  last = std::min(last, size);
  if (first > last) return Window{{}, first, false};
  GLINT_TRY_STATUS(runtime.budget.spend_steps(text.bytes.size() / 64));
  const std::string_view bytes = text.bytes;
  const std::size_t begin = byte_offset(bytes, static_cast<std::size_t>(first));
  const std::size_t length =
      byte_offset(bytes.substr(begin), static_cast<std::size_t>(last - first));
  return Window{bytes.substr(begin, length), first, true};
}

enum class Seek { kFirst, kLast };

// The index of the first or last place of a text, -1 if there is none.
Result<Int> seek(Runtime& runtime, const Value& self, const Arguments& arguments, Seek which) {
  GLINT_TRY(const Bound bound, Bound::bind("find", arguments, {"sub", "start?", "end?"}));
  GLINT_TRY(const std::string needle, require_text(*bound[0], "the text to find"));
  GLINT_TRY(const Window part, window(runtime, self, bound.get(1, Value()), bound.get(2, Value())));
  GLINT_TRY_STATUS(runtime.budget.spend_steps(part.text.size() / 64));
  if (!part.is_reached) return -1;
  const std::size_t at =
      which == Seek::kFirst ? find_text(part.text, needle) : find_last_text(part.text, needle);
  if (at == std::string::npos) return -1;
  return part.first + static_cast<Int>(count_code_points(part.text.substr(0, at)));
}

template <Seek kWhich, bool kMustFind>
Result<Value> find(Runtime& runtime, const Value& self, const Arguments& arguments) {
  GLINT_TRY(const Int at, seek(runtime, self, arguments, kWhich));
  if (kMustFind && at < 0) return invalid("substring not found");
  return Value(at);
}

Result<Value> count(Runtime& runtime, const Value& self, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("count", arguments, {"sub", "start?", "end?"}));
  GLINT_TRY(const std::string needle, require_text(*bound[0], "the text to count"));
  GLINT_TRY(const Window part, window(runtime, self, bound.get(1, Value()), bound.get(2, Value())));
  if (!part.is_reached) return Value(0);
  GLINT_TRY_STATUS(runtime.budget.spend_steps(part.text.size() / 64));
  if (needle.empty()) return Value(static_cast<Int>(count_code_points(part.text)) + 1);
  Int found = 0;
  for (std::size_t at = 0; (at = find_text(part.text, needle, at)) != std::string::npos;
       at += needle.size())
    ++found;
  return Value(found);
}

template <bool kAtEnd>
Result<Value> has_affix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind(kAtEnd ? "endswith" : "startswith", arguments,
                                           {"affix", "start?", "end?"}));
  GLINT_TRY(const Window part, window(runtime, self, bound.get(1, Value()), bound.get(2, Value())));
  const Value& affix = *bound[0];
  const std::vector<Value> choices = affix.is_tuple() ? affix.items() : std::vector<Value>{affix};
  for (const Value& choice : choices) {
    if (!choice.is_string()) {
      return invalid(str(kAtEnd ? "endswith" : "startswith",
                         " first arg must be str or a tuple of str, not ", choice.type_name()));
    }
    if (!part.is_reached) continue;
    if (kAtEnd ? part.text.ends_with(choice.text()) : part.text.starts_with(choice.text()))
      return Value(true);
  }
  return Value(false);
}

template <bool kAtEnd>
Result<Value> remove_affix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  GLINT_TRY(const Bound bound,
            Bound::bind(kAtEnd ? "removesuffix" : "removeprefix", arguments, {"affix"}));
  GLINT_TRY(const std::string affix, require_text(*bound[0], "the argument"));
  std::string_view text = self.text();
  if (kAtEnd && text.ends_with(affix)) text.remove_suffix(affix.size());
  if (!kAtEnd && text.starts_with(affix)) text.remove_prefix(affix.size());
  return text_like(runtime, self, std::string(text));
}

// The argument as a text to go into `self`: markup takes anything, escaped.
Result<std::string> text_argument(Runtime& runtime, const Value& self, const Value& value,
                                  const char* what) {
  if (!self.is_markup()) return require_text(value, what);
  GLINT_TRY(const Value escaped, escape(runtime, value));
  return escaped.text();
}

Result<Value> replace(Runtime& runtime, const Value& self, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("replace", arguments, {"old", "new", "count?"}));
  GLINT_TRY(const std::string old, text_argument(runtime, self, *bound[0], "replace() argument 1"));
  GLINT_TRY(const std::string replacement,
            text_argument(runtime, self, *bound[1], "replace() argument 2"));
  GLINT_TRY(const Int count, require_int(bound.get(2, Value(-1))));
  GLINT_TRY(std::string text, replace_text(runtime, self.text(), old, replacement, count));
  return Value(std::move(text), self.is_markup());
}

Result<Value> join(Runtime& runtime, const Value& self, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("join", arguments, {"iterable"}));
  if (!self.is_markup()) {
    GLINT_TRY(std::string text, join_texts(runtime, self.text(), *bound[0], false));
    return Value(std::move(text));
  }
  GLINT_TRY(std::vector<Value> items, to_vector(runtime, *bound[0]));
  for (Value& item : items) {
    GLINT_TRY(item, escape(runtime, item));
  }
  GLINT_TRY(const Value list, runtime.make_list(std::move(items)));
  GLINT_TRY(std::string text, join_texts(runtime, self.text(), list, false));
  return Value(std::move(text), true);
}

template <Side kSide>
Result<Value> justify(Runtime& runtime, const Value& self, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("justify", arguments, {"width", "fillchar?"}));
  GLINT_TRY(const Int width, require_int(*bound[0]));
  GLINT_TRY(const std::string fill,
            text_argument(runtime, self, bound.get(1, Value(" ")), "the fill character"));
  if (count_code_points(fill) != 1)
    return invalid("The fill character must be exactly one character long");
  GLINT_TRY(std::string text, pad(runtime, self, width, fill, kSide));
  return Value(std::move(text), self.is_markup());
}

Result<Value> zero_fill(Runtime& runtime, const Value& self, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("zfill", arguments, {"width"}));
  GLINT_TRY(const Int width, require_int(*bound[0]));
  GLINT_TRY(std::string text, pad(runtime, self, width, "0", Side::kLeft));
  const std::string& old = self.text();
  if (text.size() > old.size() && !old.empty() && (old[0] == '+' || old[0] == '-')) {
    std::swap(text[0], text[text.size() - old.size()]);
  }
  return Value(std::move(text), self.is_markup());
}

Result<Value> expand_tabs(Runtime& runtime, const Value& self, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("expandtabs", arguments, {"tabsize?"}));
  GLINT_TRY(const Int tab, require_int(bound.get(0, Value(8))));
  std::string out;
  Int column = 0;
  for (const char c : self.text()) {
    if (c == '\t') {
      const Int width = tab > 0 ? tab - column % tab : 0;
      GLINT_TRY_STATUS(runtime.budget.spend_bytes(static_cast<std::uint64_t>(width)));
      out.append(static_cast<std::size_t>(width), ' ');
      column += width;
    } else {
      out += c;
      if (c == '\n' || c == '\r') {
        column = 0;
      } else if (!is_continuation(c)) {
        ++column;
      }
    }
  }
  return text_like(runtime, self, std::move(out));
}

Result<Value> format_map(Runtime& runtime, const Value& self, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("format_map", arguments, {"mapping"}));
  if (!bound[0]->is_dict()) return invalid("format_map() argument must be a mapping");
  Arguments named;
  for (const Dict::Entry& entry : bound[0]->as_dict().entries()) {
    if (entry.key.is_string()) named.named.emplace_back(entry.key.text(), entry.value);
  }
  return format_braces(runtime, self, named);
}

}  // namespace

Result<std::string> pad(Runtime& runtime, const Value& text, Int width, std::string_view fill,
                        Side side) {
  const Int missing = width - static_cast<Int>(text.as_str().length);
  GLINT_TRY_STATUS(runtime.budget.spend_bytes(text.text().size()));
  if (missing <= 0) return text.text();
  const auto count = static_cast<std::uint64_t>(missing);
  if (count > runtime.budget.limits().max_bytes) return runtime.budget.spend_bytes(count).error();
  GLINT_TRY_STATUS(runtime.budget.spend_bytes(count * fill.size()));
  // str.center puts the odd character left of an odd width, else right.
  const Int left = side == Side::kLeft    ? missing
                   : side == Side::kRight ? 0
                                          : missing / 2 + (missing & width & 1);
  std::string out;
  for (Int i = 0; i < left; ++i) out += fill;
  out += text.text();
  for (Int i = left; i < missing; ++i) out += fill;
  return out;
}

Result<std::string> replace_text(Runtime& runtime, std::string_view text, std::string_view old,
                                 std::string_view replacement, Int count) {
  const std::uint64_t limit = count < 0 ? UINT64_MAX : static_cast<std::uint64_t>(count);
  std::string out;
  std::uint64_t done = 0;
  std::size_t at = 0;
  if (old.empty()) {  // before every character, and at the end
    for (; done < limit; ++done) {
      GLINT_TRY_STATUS(runtime.budget.spend_bytes(replacement.size() + 1));
      out += replacement;
      if (at == text.size()) break;
      const std::size_t size = byte_offset(text.substr(at), 1);
      out += text.substr(at, size);
      at += size;
    }
  } else {
    for (; done < limit; ++done) {
      const std::size_t found = find_text(text, old, at);
      if (found == text.npos) break;
      GLINT_TRY_STATUS(runtime.budget.spend_bytes(replacement.size() + found - at + 1));
      out += text.substr(at, found - at);
      out += replacement;
      at = found + old.size();
    }
  }
  GLINT_TRY_STATUS(runtime.budget.spend_bytes(text.size() - at));
  out += text.substr(at);
  return out;
}

Result<std::string> join_texts(Runtime& runtime, std::string_view separator, const Value& items,
                               bool convert) {
  GLINT_TRY(const std::shared_ptr<Iterator> iterator, iterate(runtime, items));
  std::string out;
  for (Int i = 0;; ++i) {
    GLINT_TRY(const std::optional<Value> item, iterator->next());
    if (!item) return out;
    if (!convert && !item->is_string()) {
      return invalid(
          str("sequence item ", i, ": expected str instance, ", item->type_name(), " found"));
    }
    GLINT_TRY(const std::string text, to_text(runtime, *item));
    GLINT_TRY_STATUS(runtime.budget.spend_bytes(separator.size() + text.size()));
    if (i) out += separator;
    out += text;
  }
}

Method find_string_method(std::string_view name) {
  static constexpr Named<Method> kMethods[] = {
      {"capitalize", change<to_capitalized>},
      {"casefold", change<to_casefold>},
      {"center", justify<Side::kBoth>},
      {"count", count},
      {"endswith", has_affix<true>},
      {"expandtabs", expand_tabs},
      {"find", find<Seek::kFirst, false>},
      {"format", format_braces},
      {"format_map", format_map},
      {"index", find<Seek::kFirst, true>},
      {"isalnum", ask<is_alnum>},
      {"isalpha", ask<all_in<&kAlpha>>},
      {"isascii", ask<is_ascii>},
      {"isdecimal", ask<all_in<&kDecimal>>},
      {"isdigit", ask<all_in<&kDigit>>},
      {"isidentifier", ask<is_identifier>},
      {"islower", ask<is_lower>},
      {"isnumeric", ask<all_in<&kNumeric>>},
      {"isprintable", ask<is_printable>},
      {"isspace", ask<all_in<&kSpace>>},
      {"istitle", ask<is_title>},
      {"isupper", ask<is_upper>},
      {"join", join},
      {"ljust", justify<Side::kRight>},
      {"lower", change<to_lower>},
      {"lstrip", strip<true, false>},
      {"removeprefix", remove_affix<false>},
      {"removesuffix", remove_affix<true>},
      {"replace", replace},
      {"rfind", find<Seek::kLast, false>},
      {"rindex", find<Seek::kLast, true>},
      {"rjust", justify<Side::kLeft>},
      {"rstrip", strip<false, true>},
      {"startswith", has_affix<false>},
      {"strip", strip<true, true>},
      {"swapcase", change<swap_case>},
      {"title", change<to_title>},
      {"upper", change<to_upper>},
      {"zfill", zero_fill},
  };
  const Method method = find_named(kMethods, name);
  return method ? method : find_split_method(name);
}

}  // namespace glint::jinja
