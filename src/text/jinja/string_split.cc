// Methods that take texts apart: split and its kin.
#include <algorithm>

#include "text/jinja/characters.h"
#include "text/jinja/functions.h"
#include "text/jinja/methods.h"
#include "text/jinja/operations.h"
#include "text/unicode.h"

namespace glint::jinja {
namespace {

using Pieces = std::vector<std::string_view>;

Result<Value> to_list(Runtime& runtime, const Value& self, const Pieces& pieces) {
  std::vector<Value> items;
  items.reserve(pieces.size());
  for (const std::string_view piece : pieces) {
    GLINT_TRY(Value item, runtime.make_string(std::string(piece), self.is_markup()));
    items.push_back(std::move(item));
  }
  return runtime.make_list(std::move(items));
}

std::string_view first_word(std::string_view text) {
  std::size_t at = 0;
  for (std::size_t next = 0; next < text.size(); at = next) {
    if (in_class(kSpace, next_code_point(text, next))) break;
  }
  return text.substr(0, at);
}

std::string_view last_word(std::string_view text) {
  std::string_view rest = text;  // before the word
  while (!rest.empty() && !in_class(kSpace, last_code_point(rest)))
    rest = rest.substr(0, last_character(rest));
  return text.substr(rest.size());
}

// Words between whitespace, at most `limit` splits; what is left then stays one piece.
Pieces split_words(std::string_view text, std::uint64_t limit) {
  Pieces pieces;
  for (text = strip_left(text); !text.empty(); text = strip_left(text)) {
    if (pieces.size() == limit) {
      pieces.push_back(text);
      break;
    }
    pieces.push_back(first_word(text));
    text.remove_prefix(pieces.back().size());
  }
  return pieces;
}

Pieces split_words_from_right(std::string_view text, std::uint64_t limit) {
  Pieces pieces;
  for (text = strip_right(text); !text.empty(); text = strip_right(text)) {
    if (pieces.size() == limit) {
      pieces.push_back(text);
      break;
    }
    pieces.push_back(last_word(text));
    text.remove_suffix(pieces.back().size());
  }
  std::reverse(pieces.begin(), pieces.end());
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

template <bool kFromRight>
Result<Value> split(Runtime& runtime, const Value& self, const Arguments& arguments) {
  GLINT_TRY(const Bound bound,
            Bound::bind(kFromRight ? "rsplit" : "split", arguments, {"sep?", "maxsplit?"}));
  GLINT_TRY(const Int count, require_int(bound.get(1, Value(-1))));
  const std::uint64_t limit = count < 0 ? UINT64_MAX : static_cast<std::uint64_t>(count);
  const std::string_view text = self.text();
  GLINT_TRY_STATUS(runtime.budget.spend_steps(text.size() / 64));
  if (bound.get(0, Value()).is_none()) {
    GLINT_TRY_STATUS(runtime.budget.spend_reading(text.size()));
    return to_list(runtime, self,
                   kFromRight ? split_words_from_right(text, limit) : split_words(text, limit));
  }
  GLINT_TRY(const std::string separator, require_text(*bound[0], "the separator"));
  if (separator.empty()) return invalid("empty separator");
  return to_list(
      runtime, self,
      kFromRight ? split_at_from_right(text, separator, limit) : split_at(text, separator, limit));
}

template <bool kFromRight>
Result<Value> partition(Runtime& runtime, const Value& self, const Arguments& arguments) {
  GLINT_TRY(const Bound bound,
            Bound::bind(kFromRight ? "rpartition" : "partition", arguments, {"sep"}));
  GLINT_TRY(const std::string separator, require_text(*bound[0], "the separator"));
  if (separator.empty()) return invalid("empty separator");
  const std::string_view text = self.text();
  GLINT_TRY_STATUS(runtime.budget.spend_steps(text.size() / 64));
  const std::size_t at = kFromRight ? find_last_text(text, separator) : find_text(text, separator);
  Pieces pieces = {text, "", ""};
  if (at != text.npos) {
    pieces = {text.substr(0, at), separator, text.substr(at + separator.size())};
  } else if (kFromRight) {
    pieces = {"", "", text};
  }
  std::vector<Value> items;
  for (const std::string_view piece : pieces) {
    GLINT_TRY(Value item, runtime.make_string(std::string(piece), self.is_markup()));
    items.push_back(std::move(item));
  }
  return runtime.make_tuple(std::move(items));
}

Result<Value> splitlines(Runtime& runtime, const Value& self, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("splitlines", arguments, {"keepends?"}));
  GLINT_TRY_STATUS(runtime.budget.spend_steps(self.text().size() / 64));
  return to_list(runtime, self, split_lines(self.text(), truthy(bound.get(0, Value(false)))));
}

}  // namespace

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  Pieces lines;
  std::size_t start = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = line_break_size(text.substr(at));
    if (size == 0) {
      ++at;
      continue;
    }
    lines.push_back(text.substr(start, at - start + (keep_ends ? size : 0)));
    at += size;
    start = at;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

Method find_split_method(std::string_view name) {
  if (name == "split") return split<false>;
  if (name == "rsplit") return split<true>;
  if (name == "splitlines") return splitlines;
  if (name == "partition") return partition<false>;
  if (name == "rpartition") return partition<true>;
  return nullptr;
}

}  // namespace glint::jinja
