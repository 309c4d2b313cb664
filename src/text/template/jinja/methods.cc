// The methods of texts, lists, tuples and dicts.
#include <algorithm>
#include <utility>

#include "base/contains.h"
#include "base/str.h"
#include "base/utf8.h"
#include "text/template/jinja/builtins.h"
#include "text/template/jinja/characters.h"
#include "text/template/jinja/operations.h"

namespace glint::jinja {
namespace {

using Pieces = std::vector<std::string_view>;

template <std::string (*kChange)(std::string_view)>
Result<Value> change(Runtime& runtime, const Value& self, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("str method", arguments, {}));
  GLINT_TRY_STATUS(runtime.budget.spend_reading(self.text().size()));
  return runtime.make_string(kChange(self.text()), self.is_markup());
}

Result<Value> capitalize(Runtime& runtime, const Value& self, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("capitalize", arguments, {}));
  GLINT_TRY_STATUS(runtime.budget.spend_reading(self.text().size()));
  const std::string& text = self.text();
  if (text.empty()) return self;
  const std::string head = text.substr(0, byte_offset(text, 1));
  if (count_code_points(to_upper(head)) > 1)
    return invalid("capitalize is not supported for a text that begins with " + head);
  const std::string lower = to_lower(text);  // whole, because of the neighbours of a sigma
  std::string out;
  append_utf8(out, to_title(first_code_point(head)));
  return runtime.make_string(out + lower.substr(byte_offset(lower, 1)), self.is_markup());
}

template <bool kLeft, bool kRight>
Result<Value> strip(Runtime& runtime, const Value& self, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("strip", arguments, {"chars?"}));
  std::string_view text = self.text();
  if (bound.get(0, Value()).is_none()) {
    if (kLeft) text = strip_left(text);
    if (kRight) text = strip_right(text);
  } else {
    GLINT_TRY(const std::string chars, require_text(bound[0], "strip arg"));
    GLINT_TRY_STATUS(runtime.budget.spend_reading(chars.size()));
    if (kLeft) text = strip_left(text, chars);
    if (kRight) text = strip_right(text, chars);
  }
  GLINT_TRY_STATUS(runtime.budget.spend_reading(self.text().size() - text.size()));
  return runtime.make_string(std::string(text), self.is_markup());
}

// The one argument of find, count, startswith and endswith that is supported.
Result<Bound> bind_text(const char* name, const Arguments& arguments) {
  GLINT_TRY(Bound bound, Bound::bind(name, arguments, {"text", "start?", "end?"}));
  if (!bound.has(1) && !bound.has(2)) return bound;
  return invalid(str("a start or end of ", name, "() is not supported"));
}

template <bool kLast, bool kMustFind>
Result<Value> find(Runtime& runtime, const Value& self, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, bind_text("find", arguments));
  GLINT_TRY(const std::string needle, require_text(bound[0], "the text to find"));
  GLINT_TRY_STATUS(runtime.budget.spend_steps(self.text().size() / 64));
  const std::size_t at =
      kLast ? find_last_text(self.text(), needle) : find_text(self.text(), needle);
  if (at != std::string::npos) {
    return Value(static_cast<Int>(count_code_points(std::string_view(self.text()).substr(0, at))));
  }
  return kMustFind ? Result<Value>(invalid("substring not found")) : Value(-1);
}

Result<Value> count(Runtime& runtime, const Value& self, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, bind_text("count", arguments));
  GLINT_TRY(const std::string needle, require_text(bound[0], "the text to count"));
  GLINT_TRY_STATUS(runtime.budget.spend_steps(self.text().size() / 64));
  if (needle.empty()) return Value(static_cast<Int>(self.as_str().length) + 1);
  Int found = 0;
  for (std::size_t at = 0; (at = find_text(self.text(), needle, at)) != std::string::npos;
       at += needle.size())
    ++found;
  return Value(found);
}

template <bool kAtEnd>
Result<Value> has_affix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const char* const name = kAtEnd ? "endswith" : "startswith";
  GLINT_TRY(const Bound bound, bind_text(name, arguments));
  const Value& affix = bound[0];
  const std::vector<Value> choices = affix.is_tuple() ? affix.items() : std::vector<Value>{affix};
  const std::string_view text = self.text();
  for (const Value& choice : choices) {
    GLINT_TRY(const std::string part, require_text(choice, str("the argument of ", name)));
    GLINT_TRY_STATUS(runtime.budget.spend_steps(part.size() / 64));
    if (kAtEnd ? text.ends_with(part) : text.starts_with(part)) return Value(true);
  }
  return Value(false);
}

// `text` with the first `limit` places of `old` replaced.
Result<std::string> replace_text(Runtime& runtime, std::string_view text, std::string_view old,
                                 std::string_view replacement, std::uint64_t limit) {
  std::string out;
  std::size_t at = 0;
  for (std::uint64_t done = 0; done < limit; ++done) {
    // An empty text is found before every character, and at the end.
    const std::size_t found =
        old.empty() && done > 0 ? at + byte_offset(text.substr(at), 1) : find_text(text, old, at);
    if (found == text.npos || (old.empty() && done > 0 && at == text.size())) break;
    GLINT_TRY_STATUS(runtime.budget.spend_bytes(replacement.size() + found - at + 1));
    out += text.substr(at, found - at);
    out += replacement;
    at = found + old.size();
  }
  GLINT_TRY_STATUS(runtime.budget.spend_bytes(text.size() - at));
  out += text.substr(at);
  return out;
}

Result<Value> replace(Runtime& runtime, const Value& self, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("replace", arguments, {"old", "new", "count?"}));
  GLINT_TRY(const std::string old, require_text(bound[0], "replace() argument 1"));
  GLINT_TRY(const std::string replacement, require_text(bound[1], "replace() argument 2"));
  GLINT_TRY(const Int count, require_int(bound.get(2, Value(-1))));
  const std::uint64_t limit = count < 0 ? UINT64_MAX : static_cast<std::uint64_t>(count);
  GLINT_TRY(std::string text, replace_text(runtime, self.text(), old, replacement, limit));
  return Value(std::move(text));
}

Result<Value> join(Runtime& runtime, const Value& self, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("join", arguments, {"iterable"}));
  GLINT_TRY(std::string text, join_texts(runtime, self.text(), bound[0], false));
  return Value(std::move(text));
}

std::string_view first_word(std::string_view text) {
  std::size_t at = 0;
  for (std::size_t next = 0; next < text.size(); at = next) {
    if (is_space(next_code_point(text, next))) break;
  }
  return text.substr(0, at);
}

std::string_view last_word(std::string_view text) {
  std::string_view rest = text;  // before the word
  while (!rest.empty() && !is_space(last_code_point(rest)))
    rest = rest.substr(0, last_character(rest));
  return text.substr(rest.size());
}

// Words between whitespace, at most `limit` splits; the rest stays one piece.
template <bool kFromRight>
Pieces split_words(std::string_view text, std::uint64_t limit) {
  Pieces pieces;
  const auto strip = [](std::string_view rest) {
    return kFromRight ? strip_right(rest) : strip_left(rest);
  };
  for (text = strip(text); !text.empty(); text = strip(text)) {
    if (pieces.size() == limit) {
      pieces.push_back(text);
      break;
    }
    pieces.push_back(kFromRight ? last_word(text) : first_word(text));
    kFromRight ? text.remove_suffix(pieces.back().size())
               : text.remove_prefix(pieces.back().size());
  }
  if (kFromRight) std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

Pieces split_at(std::string_view text, std::string_view separator, std::uint64_t limit) {
  Pieces pieces;
  std::size_t at = 0;
  while (pieces.size() < limit) {
    const std::size_t found = find_text(text, separator, at);
    if (found == text.npos) break;
    pieces.push_back(text.substr(at, found - at));
    at = found + separator.size();
  }
  pieces.push_back(text.substr(at));
  return pieces;
}

// As split_at, but from the right: the text is read backwards, so that no place is looked at twice.
Pieces split_at_from_right(std::string_view text, std::string_view separator, std::uint64_t limit) {
  const std::string backwards(text.rbegin(), text.rend());
  const std::string backwards_separator(separator.rbegin(), separator.rend());
  Pieces pieces = split_at(backwards, backwards_separator, limit);
  for (std::string_view& piece : pieces) {
    const std::size_t begin = static_cast<std::size_t>(piece.data() - backwards.data());
    piece = text.substr(text.size() - begin - piece.size(), piece.size());
  }
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

// Memory of a piece in a list that grew, and of the place for its value.
constexpr std::size_t kPieceBytes = 2 * sizeof(std::string_view) + sizeof(Value);

template <bool kFromRight>
Result<Value> split(Runtime& runtime, const Value& self, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("split", arguments, {"sep?", "maxsplit?"}));
  GLINT_TRY(const Int count, require_int(bound.get(1, Value(-1))));
  // One piece more than can be paid for is enough to be told.
  const std::uint64_t limit = std::min(count < 0 ? UINT64_MAX : static_cast<std::uint64_t>(count),
                                       runtime.budget.bytes_left() / kPieceBytes);
  GLINT_TRY_STATUS(runtime.budget.spend_reading(self.text().size()));
  Pieces pieces;
  if (bound.get(0, Value()).is_none()) {
    pieces = split_words<kFromRight>(self.text(), limit);
  } else {
    GLINT_TRY(const std::string separator, require_text(bound[0], "the separator"));
    if (separator.empty()) return invalid("empty separator");
    pieces = kFromRight ? split_at_from_right(self.text(), separator, limit)
                        : split_at(self.text(), separator, limit);
  }
  GLINT_TRY_STATUS(runtime.budget.spend_bytes(pieces.size() * kPieceBytes));
  std::vector<Value> values;
  values.reserve(pieces.size());
  for (const std::string_view piece : pieces) {
    GLINT_TRY(Value value, runtime.make_string(std::string(piece)));
    values.push_back(std::move(value));
  }
  return runtime.make_list(std::move(values));
}

Result<Value> index_of(Runtime& runtime, const Value& self, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("index", arguments, {"value"}));
  for (std::size_t i = 0; i < self.items().size(); ++i) {
    if (self.items()[i].same_as(bound[0])) return Value(static_cast<Int>(i));
    GLINT_TRY(const bool same, equals(runtime, self.items()[i], bound[0]));
    if (same) return Value(static_cast<Int>(i));
  }
  GLINT_TRY(const std::string text, to_repr(runtime, bound[0]));
  return invalid(text + " is not in " + self.type_name());
}

template <Items::Type kPart>
Result<Value> view(Runtime& runtime, const Value& self, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("dict method", arguments, {}));
  std::vector<Value> values;
  GLINT_TRY_STATUS(runtime.budget.spend_steps(self.as_dict().size()));
  for (const auto& [key, value] : self.as_dict().entries()) {
    Value part = kPart == Items::kKeys ? key : value;
    if (kPart == Items::kPairs) {
      GLINT_TRY(part, runtime.make_items(Items::kTuple, {key, value}));
    }
    values.push_back(std::move(part));
  }
  return runtime.make_items(kPart, std::move(values));
}

Result<Value> get(Runtime&, const Value& self, const Arguments& arguments) {
  if (!arguments.named.empty()) return invalid("dict.get() takes no keyword arguments");
  GLINT_TRY(const Bound bound, Bound::bind("get", arguments, {"key", "default?"}));
  GLINT_TRY(const std::string key, key_text(bound[0]));
  const Value* found = self.as_dict().find(key);
  return found ? *found : bound.get(1, Value());
}

}  // namespace

Method find_string_method(std::string_view name) {
  static constexpr Named<Method> kMethods[] = {
      {"capitalize", capitalize},    {"count", count},
      {"endswith", has_affix<true>}, {"find", find<false, false>},
      {"index", find<false, true>},  {"join", join},
      {"lower", change<to_lower>},   {"lstrip", strip<true, false>},
      {"replace", replace},          {"rfind", find<true, false>},
      {"rsplit", split<true>},       {"rstrip", strip<false, true>},
      {"split", split<false>},       {"startswith", has_affix<false>},
      {"strip", strip<true, true>},  {"upper", change<to_upper>},
  };
  return find_named(kMethods, name);
}

Method find_method(const Value& self, std::string_view name) {
  static constexpr Named<Method> kDictMethods[] = {{"get", get},
                                                   {"items", view<Items::kPairs>},
                                                   {"keys", view<Items::kKeys>},
                                                   {"values", view<Items::kValues>}};
  if (self.is_string()) return find_string_method(name);
  if (self.is_dict()) return find_named(kDictMethods, name);
  return (self.is_list() || self.is_tuple()) && name == "index" ? index_of : nullptr;
}

namespace {

constexpr std::string_view kLackedOfStrings =
    "casefold center encode expandtabs format format_map isalnum isalpha isascii isdecimal "
    "isdigit isidentifier islower isnumeric isprintable isspace istitle isupper ljust maketrans "
    "partition removeprefix removesuffix rindex rjust rpartition splitlines swapcase title "
    "translate zfill";

}  // namespace

bool lacks_method(std::string_view name) {
  return name == "copy" || name == "fromkeys" ||  // of lists and dicts
         glint::contains(glint::split(kLackedOfStrings, ' '), name);
}

std::optional<Error> unsupported_method(const Value& self, std::string_view name) {
  static constexpr std::string_view kList = "count copy", kDict = "copy fromkeys";
  const std::string_view unsupported = self.is_string()  ? kLackedOfStrings
                                       : self.is_items() ? kList
                                       : self.is_dict()  ? kDict
                                                         : "";
  if (!glint::contains(glint::split(unsupported, ' '), name)) return {};
  return invalid(str("the method '", name, "' of ", self.type_name(), " is not supported"));
}

Result<std::string> join_texts(Runtime& runtime, std::string_view separator, const Value& items,
                               bool convert) {
  GLINT_TRY(const std::vector<Value> values, to_vector(runtime, items));
  std::string out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!convert && !values[i].is_string()) {
      return invalid(
          str("sequence item ", i, ": expected str instance, ", values[i].type_name(), " found"));
    }
    GLINT_TRY(const std::string text, to_text(runtime, values[i]));
    GLINT_TRY_STATUS(runtime.budget.spend_bytes(separator.size() + text.size()));
    if (i) out += separator;
    out += text;
  }
  return out;
}

}  // namespace glint::jinja
