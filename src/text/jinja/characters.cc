#include "text/jinja/characters.h"

#include <algorithm>
#include <cstring>

#include "text/unicode.h"

namespace glint::jinja {
namespace {

void append_case(std::string& out, const CaseMapping& mapping, char32_t c) {
  const auto longer =
      std::lower_bound(mapping.longer.begin(), mapping.longer.end(), c,
                       [](const LongCase& row, char32_t c) { return row.from < c; });
  if (longer != mapping.longer.end() && longer->from == c) {
    for (const std::uint32_t image : longer->to) {
      if (image != 0) append_utf8(out, image);
    }
    return;
  }
  auto run = std::upper_bound(mapping.runs.begin(), mapping.runs.end(), c,
                              [](char32_t c, const CaseRun& row) { return c < row.first; });
  // Runs of step 2 interleave, so the right one may lie one further back.
  for (int tries = 0; tries < 2 && run != mapping.runs.begin(); ++tries) {
    --run;
    if (c >= run->first && c <= run->last && (c - run->first) % run->step == 0) {
      return append_utf8(out, static_cast<char32_t>(static_cast<std::int64_t>(c) + run->delta));
    }
  }
  append_utf8(out, c);
}

constexpr char32_t kCapitalSigma = 0x3a3, kSmallSigma = 0x3c3, kFinalSigma = 0x3c2;

// Which small sigma the capital one at [at, next) becomes: the final one after a letter and before
// none.
char32_t lower_sigma(std::string_view text, std::size_t at, std::size_t next) {
  std::string_view before = text.substr(0, at);
  char32_t c = 0;
  while (!before.empty()) {
    c = last_code_point(before);
    if (!in_class(kCaseIgnorable, c)) break;
    before = before.substr(0, last_character(before));
  }
  if (before.empty() || !in_class(kCased, c)) return kSmallSigma;
  while (next < text.size()) {
    c = next_code_point(text, next);
    if (!in_class(kCaseIgnorable, c)) return in_class(kCased, c) ? kSmallSigma : kFinalSigma;
  }
  return kFinalSigma;
}

void append_lower(std::string& out, std::string_view text, std::size_t at, std::size_t next,
                  char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  } else if (c == kCapitalSigma) {
    append_utf8(out, lower_sigma(text, at, next));
  } else {
    append_case(out, kToLower, c);
  }
}

// Calls visit(at, next, c) for every code point c at bytes [at, next).
template <class Visit>
void for_each_code_point(std::string_view text, Visit visit) {
  for (std::size_t next = 0; next < text.size();) {
    const std::size_t at = next;
    const char32_t c = next_code_point(text, next);
    visit(at, next, c);
  }
}

}  // namespace

std::size_t count_code_points(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text) count += !is_continuation(c);
  return count;
}

std::size_t byte_offset(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if (!is_continuation(text[at]) && index-- == 0) return at;
  }
  return at;
}

bool in_class(std::span<const CodePointRange> table, char32_t c) {
  const auto after =
      std::upper_bound(table.begin(), table.end(), c,
                       [](char32_t c, const CodePointRange& row) { return c < row.first; });
  return after != table.begin() && c <= std::prev(after)->last;
}

bool all_in_class(std::span<const CodePointRange> table, std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    if (!in_class(table, next_code_point(text, at))) return false;
  }
  return !text.empty();
}

std::string to_lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for_each_code_point(text, [&](std::size_t at, std::size_t next, char32_t c) {
    append_lower(out, text, at, next, c);
  });
  return out;
}

std::string to_upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for_each_code_point(text, [&](std::size_t, std::size_t, char32_t c) {
    if (c < 0x80) {
      out += static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
    } else {
      append_case(out, kToUpper, c);
    }
  });
  return out;
}

std::string to_title(std::string_view text) {
  std::string out;
  bool in_word = false;
  for_each_code_point(text, [&](std::size_t at, std::size_t next, char32_t c) {
    if (in_word) {
      append_lower(out, text, at, next, c);
    } else {
      append_case(out, kToTitle, c);
    }
    in_word = in_class(kCased, c);
  });
  return out;
}

std::string to_capitalized(std::string_view text) {
  std::string out;
  for_each_code_point(text, [&](std::size_t at, std::size_t next, char32_t c) {
    if (at == 0) {
      append_case(out, kToTitle, c);
    } else {
      append_lower(out, text, at, next, c);
    }
  });
  return out;
}

std::string to_casefold(std::string_view text) {
  std::string out;
  for_each_code_point(text,
                      [&](std::size_t, std::size_t, char32_t c) { append_case(out, kToFold, c); });
  return out;
}

std::string swap_case(std::string_view text) {
  std::string out;
  for_each_code_point(text, [&](std::size_t at, std::size_t next, char32_t c) {
    if (in_class(kUpper, c)) {
      append_lower(out, text, at, next, c);
    } else if (in_class(kLower, c)) {
      append_case(out, kToUpper, c);
    } else {
      append_utf8(out, c);
    }
  });
  return out;
}

namespace {

// A title letter is cased but neither upper nor lower: U+01C5.
bool is_title_letter(char32_t c) {
  if (in_class(kUpper, c) || in_class(kLower, c)) return false;
  std::string same, title, lower;
  append_utf8(same, c);
  append_case(title, kToTitle, c);
  append_case(lower, kToLower, c);
  return title == same && lower != same;
}

// At least one cased letter, and none of `wrong` or of title case.
bool has_only_case(std::string_view text, std::span<const CodePointRange> right,
                   std::span<const CodePointRange> wrong) {
  bool found = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    if (in_class(wrong, c) || is_title_letter(c)) return false;
    found = found || in_class(right, c);
  }
  return found;
}

}  // namespace

bool is_lower(std::string_view text) { return has_only_case(text, kLower, kUpper); }
bool is_upper(std::string_view text) { return has_only_case(text, kUpper, kLower); }

bool is_title(std::string_view text) {
  bool found = false, after_cased = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    if (in_class(kUpper, c) || is_title_letter(c)) {
      if (after_cased) return false;
      found = after_cased = true;
    } else if (in_class(kLower, c)) {
      if (!after_cased) return false;
    } else {
      after_cased = false;
    }
  }
  return found;
}

char32_t last_code_point(std::string_view text) {
  std::size_t at = last_character(text);
  return next_code_point(text, at);
}

namespace {

template <class Match>
std::string_view strip_left_if(std::string_view text, Match match) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t next = at;
    if (!match(next_code_point(text, next))) break;
    at = next;
  }
  return text.substr(at);
}

template <class Match>
std::string_view strip_right_if(std::string_view text, Match match) {
  while (!text.empty() && match(last_code_point(text))) text = text.substr(0, last_character(text));
  return text;
}

bool is_space(char32_t c) { return in_class(kSpace, c); }

// A set of characters that is asked once for every character stripped.
class CharacterSet {
 public:
  explicit CharacterSet(std::string_view chars) {
    for (std::size_t at = 0; at < chars.size();) members_.push_back(next_code_point(chars, at));
    std::sort(members_.begin(), members_.end());
  }
  bool operator()(char32_t c) const {
    return std::binary_search(members_.begin(), members_.end(), c);
  }

 private:
  std::u32string members_;
};

}  // namespace

std::string_view strip_left(std::string_view text) { return strip_left_if(text, is_space); }
std::string_view strip_right(std::string_view text) { return strip_right_if(text, is_space); }

std::string_view strip_left(std::string_view text, std::string_view chars) {
  return strip_left_if(text, CharacterSet(chars));
}

std::string_view strip_right(std::string_view text, std::string_view chars) {
  return strip_right_if(text, CharacterSet(chars));
}

std::size_t line_break_size(std::string_view text) {
  if (text.empty()) return 0;
  if (text[0] == '\r') return text.size() > 1 && text[1] == '\n' ? 2 : 1;
  if ((text[0] >= '\n' && text[0] <= '\f') || (text[0] >= 0x1c && text[0] <= 0x1e)) return 1;
  if (text.substr(0, 2) == "\xc2\x85") return 2;  // NEL
  if (text.substr(0, 3) == "\xe2\x80\xa8" || text.substr(0, 3) == "\xe2\x80\xa9")
    return 3;  // LS, PS
  return 0;
}

std::size_t find_text(std::string_view text, std::string_view needle, std::size_t from) {
  if (from > text.size()) return text.npos;
  if (needle.empty()) return from;
  // memmem, unlike std::string::find, has no quadratic case.
  const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  if (!found) return text.npos;
  return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

std::size_t find_last_text(std::string_view text, std::string_view needle) {
  if (needle.empty()) return text.size();
  const std::string reversed_text(text.rbegin(), text.rend());
  const std::string reversed_needle(needle.rbegin(), needle.rend());
  const std::size_t found = find_text(reversed_text, reversed_needle);
  return found == text.npos ? found : text.size() - found - needle.size();
}

}  // namespace glint::jinja
