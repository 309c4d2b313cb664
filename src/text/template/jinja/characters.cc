#include "text/template/jinja/characters.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>

#include "base/utf8.h"
#include "text/tokenizer/unicode.h"

namespace glint::jinja {
namespace {

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

char32_t simple_upper(char32_t c) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}

char32_t simple_lower(char32_t c) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

// A character that becomes several in upper case is, letter by letter, its case folding in upper
// case: \u00df folds to "ss", and is "SS".
void append_upper(std::string& out, char32_t c) {
  utf8proc_int32_t folded[8] = {};
  int boundary = 0;
  const utf8proc_ssize_t size = utf8proc_decompose_char(
      static_cast<utf8proc_int32_t>(c), folded, std::ssize(folded), UTF8PROC_CASEFOLD, &boundary);
  if (size < 2 || category(c) == UTF8PROC_CATEGORY_LU) return append_utf8(out, simple_upper(c));
  for (utf8proc_ssize_t i = 0; i < size; ++i) {
    append_utf8(out, simple_upper(static_cast<char32_t>(folded[i])));
  }
}

// The properties Case_Ignorable and Cased, which the final sigma asks for.
bool is_case_ignorable(char32_t c) {
  static constexpr std::u32string_view kInWords =
      U"'.:^`\u00b7\u2018\u2019\u2024\u2027\u0387\u055f\u05f4\ufe13\ufe52\ufe55\uff07\uff0e"
      U"\uff1a";
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return kInWords.find(c) != kInWords.npos;
  }
}

bool is_cased(char32_t c) {
  const utf8proc_category_t kind = category(c);
  const bool is_letter =
      kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL || kind == UTF8PROC_CATEGORY_LT;
  const bool is_sign = c == 0xaa || c == 0xba || (c >= 0x1f130 && c <= 0x1f149) ||
                       (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
  return is_letter || is_sign || simple_lower(c) != c || simple_upper(c) != c;
}

constexpr char32_t kCapitalSigma = 0x3a3, kSmallSigma = 0x3c3, kFinalSigma = 0x3c2;

// The small form of the sigma between two texts: the final one after a letter and before none.
char32_t lower_sigma(std::string_view before, std::string_view after) {
  while (!before.empty() && is_case_ignorable(last_code_point(before)))
    before = before.substr(0, last_character(before));
  if (before.empty() || !is_cased(last_code_point(before))) return kSmallSigma;
  for (std::size_t at = 0; at < after.size();) {
    const char32_t c = next_code_point(after, at);
    if (!is_case_ignorable(c)) return is_cased(c) ? kSmallSigma : kFinalSigma;
  }
  return kFinalSigma;
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

bool is_space(char32_t c) { return is_white_space(c) || (c >= 0x1c && c <= 0x1f); }

bool is_printable(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
      return c == ' ';
    default:
      return true;
  }
}

bool is_word(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return c == '_' || (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO) ||
         (kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO);
}

int decimal_digit(char32_t c) {
  if (category(c) != UTF8PROC_CATEGORY_ND) return -1;
  int place = 0;  // decimal digits stand in runs from 0 to 9
  while (category(c - static_cast<char32_t>(place) - 1) == UTF8PROC_CATEGORY_ND) ++place;
  return place % 10;
}

std::string to_lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t next = 0; next < text.size();) {
    const std::size_t at = next;
    const char32_t c = next_code_point(text, next);
    if (c == kCapitalSigma) {
      append_utf8(out, lower_sigma(text.substr(0, at), text.substr(next)));
    } else {
      append_utf8(out, simple_lower(c));
      if (c == 0x130) append_utf8(out, 0x307);  // a capital I with a dot keeps it
    }
  }
  return out;
}

std::string to_upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) append_upper(out, next_code_point(text, at));
  return out;
}

char32_t to_title(char32_t c) {
  return static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
}

char32_t first_code_point(std::string_view text) {
  std::size_t at = 0;
  return next_code_point(text, at);
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
