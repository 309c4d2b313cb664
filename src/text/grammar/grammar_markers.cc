#include "text/grammar/grammar_markers.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>

#include "base/contains.h"
#include "base/str.h"
#include "base/utf8.h"

namespace glint {
namespace {

// Takes one character of a class: itself, or an escape.
std::string_view take_from_class(std::string_view& rest) {
  std::size_t size = 0;
  if (rest.starts_with("\\u{")) {
    size = std::min(rest.find('}'), rest.size() - 1) + 1;
  } else if (rest.starts_with("\\u") || rest.starts_with("\\x")) {
    size = rest[1] == 'u' ? 6 : 4;
  } else {
    if (rest[0] == '\\' && rest.size() > 1) ++size;
    next_code_point(rest, size);
  }
  const std::string_view taken = rest.substr(0, size);
  rest.remove_prefix(taken.size());
  return taken;
}

// How a character of a class compares with '<'; 0 for escapes that are several characters.
int beside_marker(std::string_view character) {
  std::size_t at = 0;
  std::uint32_t code = static_cast<std::uint32_t>(next_code_point(character, at));
  if (code == '\\' && character.size() > 1) {
    code = static_cast<unsigned char>(character[1]);
    if (contains(std::string_view("dDwWsS"), character[1])) return 0;
    if (contains(std::string_view("0bfnrtv"), character[1])) return -1;
    if (code == 'u' || code == 'x') {
      const std::string_view digits = character.substr(character.starts_with("\\u{") ? 3 : 2);
      std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    }
  }
  return code < '<' ? -1 : code > '<';
}

std::string_view inverse_without_markers(char escape) {
  if (escape == 'S') return R"(\x00-\x08\x0e-\x1f!-;=-\u{10ffff})";
  if (escape == 'D') return R"(\x00-\/:;=-\u{10ffff})";
  if (escape == 'W') return R"(\x00-\/:;=-@\[-\^`{-\u{10ffff})";
  return {};
}

// Takes a class from behind its "[".
std::string take_class_without_markers(std::string_view& rest) {
  const bool is_inverse = rest.starts_with('^');
  std::string out;
  if (is_inverse) {
    rest.remove_prefix(1);
    out = rest.starts_with('-') ? "^<\\" : "^<";
  }
  while (!rest.empty() && rest[0] != ']') {
    const std::string_view low = take_from_class(rest);
    const bool escapes = !is_inverse && low.size() == 2 && low[0] == '\\';
    const std::string_view inverse = escapes ? inverse_without_markers(low[1]) : "";
    out += inverse.empty() ? low : inverse;
    if (is_inverse || rest.size() < 2 || rest[0] != '-' || rest[1] == ']') continue;
    rest.remove_prefix(1);
    const std::string_view high = take_from_class(rest);
    out += beside_marker(low) < 0 && beside_marker(high) > 0 ? "-;=-" : "-";
    out += high;
  }
  return out;
}

}  // namespace

std::string without_markers(std::string_view pattern) {
  std::string out;
  while (!pattern.empty()) {
    const char c = pattern[0];
    if (c == '\\' && pattern.size() > 1) {
      const char escape = pattern[1];
      const bool is_inverse = contains(std::string_view("SDW"), escape);
      const auto lower = static_cast<char>(std::tolower(static_cast<unsigned char>(escape)));
      out += is_inverse ? str("[^<\\", lower, "]") : std::string(pattern.substr(0, 2));
      pattern.remove_prefix(2);
      continue;
    }
    pattern.remove_prefix(1);
    if (c == '.') {
      out += R"([^<\n])";
    } else {
      out += c;
      if (c == '[') out += take_class_without_markers(pattern);
    }
  }
  return out;
}

}  // namespace glint
