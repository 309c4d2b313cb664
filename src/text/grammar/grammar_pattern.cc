#include "text/grammar/grammar_pattern.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <vector>

#include "base/contains.h"
#include "base/str.h"
#include "base/utf8.h"

namespace glint {
namespace {

constexpr std::int64_t kMaxExpression = 5000;  // characters and classes, repetitions written out
constexpr std::int64_t kMostRepetitions = 1 << 30;  // counted; what is beyond is as large

}  // namespace

Status check_expression(std::string_view expression) {
  // An open group: the size of its items so far, and of the last of them.
  struct Group {
    std::int64_t size = 0, last = 0;
  };
  std::vector<Group> groups(1);
  std::int64_t largest = 0;
  const auto add = [&](std::int64_t size) {
    groups.back().size += size;
    groups.back().last = size;
    largest = std::max(largest, groups.back().size);
  };
  for (std::size_t i = 0; i < expression.size() && largest <= kMaxExpression; ++i) {
    const char c = expression[i];
    if (c == '\\') {
      ++i;
      add(1);
    } else if (c == '[') {
      const std::size_t begin = i;
      for (++i; i < expression.size() && expression[i] != ']'; ++i) i += expression[i] == '\\';
      add(1 + static_cast<std::int64_t>((i - begin) / 8));
    } else if (c == '(') {
      groups.emplace_back();
    } else if (c == ')' && groups.size() > 1) {
      const std::int64_t size = groups.back().size;
      groups.pop_back();
      add(size);
    } else if (c == '{') {
      const std::string_view braces = expression.substr(i, expression.find('}', i) - i + 1);
      if (contains(braces, ' '))
        return invalid(str("the repetition ", quoted(braces),
                           " holds a blank; leave it out, or write \\{ for the character"));
      std::int64_t count = 0, most = 0;
      for (; i + 1 < expression.size() && expression[i + 1] != '}'; ++i) {
        const char digit = expression[i + 1];
        if (digit < '0' || digit > '9') count = 0;
        if (digit >= '0' && digit <= '9')
          count = std::min(count * 10 + digit - '0', kMostRepetitions);
        most = std::max(most, count);
      }
      ++i;  // the "}"
      const std::int64_t unit = groups.back().last;
      most = std::max<std::int64_t>(most, 1);
      add((most - 1) * unit);
      groups.back().last = most * unit;  // which may be repeated again
    } else if (std::string_view("*+?|^$").find(c) == std::string_view::npos) {
      add(1);
    }
  }
  if (largest <= kMaxExpression) return Ok{};
  return invalid(str("the expression is too large: its repetitions come to more than ",
                     with_commas(kMaxExpression), " characters"));
}

std::string_view without_lookaheads(std::string_view pattern) {
  constexpr std::pair<std::string_view, std::string_view> kKnown[] = {
      {R"x(^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+)x"
       R"x([A-Za-z]{2,}$)x",
       R"x(^[A-Za-z0-9_+-]+(\.[A-Za-z0-9_+-]+)*@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$)x"},
      {R"x(^P(?:(\d+W)|(?!.*W)(?=\d|T\d)(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?)x"
       R"x((\d+([.,]\d+)?S)?)?)$)x",
       R"x(^P(\d+W|(\d+Y(\d+M)?(\d+D)?|\d+M(\d+D)?|\d+D)(T(\d+H(\d+M)?|\d+M))?|)x"
       R"x(T(\d+H(\d+M)?(\d+([.,]\d+)?S)?|\d+M(\d+([.,]\d+)?S)?|\d+([.,]\d+)?S))$)x"},
      {R"x(^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$)x", R"x(^[+-]?(\d+\.?\d*|\.\d+)$)x"}};
  for (const auto& [with, without] : kKnown)
    if (pattern == with) return without;
  return pattern;
}

namespace {

// Takes one character, or class of characters, from the beginning of `rest`; empty: it is more.
std::string_view take_character(std::string_view& rest) {
  std::size_t size = 1;
  if (rest[0] == '\\') {
    const bool known = rest.size() > 1 && (contains(std::string_view("dDwWsS"), rest[1]) ||
                                           std::ispunct(static_cast<unsigned char>(rest[1])));
    size = known ? 2 : 0;
  } else if (rest[0] == '[') {
    while (size < rest.size() && rest[size] != ']') size += rest[size] == '\\' ? 2 : 1;
    size = size < rest.size() ? size + 1 : 0;
  } else if (contains(std::string_view("()|*+?{}]^$"), rest[0])) {
    size = 0;
  } else {
    next_code_point(rest, size = 0);
  }
  const std::string_view taken = rest.substr(0, size);
  rest.remove_prefix(size);
  return taken;
}

struct Repeats {
  std::int64_t least = 1, most = 1;
};

// Takes how often the character before `rest` may come; nothing: it cannot be read.
std::optional<Repeats> take_repeats(std::string_view& rest) {
  const char c = rest.empty() ? '\0' : rest[0];
  if (!contains(std::string_view("*+?{"), c)) return Repeats{};
  Repeats repeats = {.least = c == '+' ? 1 : 0, .most = c == '?' ? 1 : kMostRepetitions};
  std::size_t size = 1;
  if (c == '{') {
    const char *at = rest.data() + 1, *const end = rest.data() + rest.size();
    const auto read = [&](std::int64_t& number) {
      const auto [next, error] = std::from_chars(at, end, number);
      const bool ok = error == std::errc() && number >= 0 && number <= kMostRepetitions;
      at = next;
      return ok;
    };
    if (!read(repeats.least)) return std::nullopt;
    repeats.most = repeats.least;
    if (at != end && *at == ',') {
      ++at;
      repeats.most = kMostRepetitions;
      if (at != end && *at != '}' && !read(repeats.most)) return std::nullopt;
    }
    if (at == end || *at != '}') return std::nullopt;
    size = static_cast<std::size_t>(at + 1 - rest.data());
  }
  rest.remove_prefix(size);
  if (c != '\0' && rest.starts_with('?')) rest.remove_prefix(1);  // lazy
  return repeats;
}

}  // namespace

std::optional<std::string> pattern_of_length(std::string_view pattern, std::int64_t least,
                                             std::int64_t most) {
  if (!pattern.starts_with('^') || !pattern.ends_with('$')) return std::nullopt;
  std::string_view rest = pattern.substr(1, pattern.size() - 2);
  std::string before, after;
  std::optional<Repeats> varies;  // of the last character of `before`
  while (!rest.empty()) {
    const std::string_view character = take_character(rest);
    const std::optional<Repeats> repeats = take_repeats(rest);
    if (character.empty() || !repeats) return std::nullopt;
    std::string& out = varies ? after : before;
    out += character;
    if (repeats->least != repeats->most) {
      if (varies) return std::nullopt;
      varies = repeats;
    } else {
      if (repeats->least != 1) out += str('{', repeats->least, '}');
      least -= repeats->least;
      if (most < kMostRepetitions) most -= repeats->least;
    }
  }
  if (varies) least = std::max(least, varies->least), most = std::min(most, varies->most);
  if (!varies) return least <= 0 && most >= 0 ? std::optional(std::string(pattern)) : std::nullopt;
  if (most < least) return std::nullopt;
  const std::string upper = most == kMostRepetitions ? std::string() : str(most);
  return str('^', before, '{', least, ',', upper, '}', after, '$');
}

namespace {

// The characters, as they are written, that all texts of a pattern begin with.
std::string_view beginning_of(std::string_view pattern) {
  if (!pattern.starts_with('^') || contains(pattern, '|')) return {};
  std::string_view rest = pattern.substr(1);
  std::size_t size = 0;
  while (!rest.empty()) {
    const std::string_view character = take_character(rest);
    const bool is_one = !character.empty() && character[0] != '[' && character[0] != '\\' &&
                        character != "." &&
                        (rest.empty() || !contains(std::string_view("*?{"), rest[0]));
    if (!is_one) break;
    size += character.size();
    if (rest.starts_with('+')) break;
  }
  return pattern.substr(1, size);
}

}  // namespace

bool begin_differently(std::string_view one, std::string_view other) {
  const std::string_view first = beginning_of(one), second = beginning_of(other);
  return !first.starts_with(second) && !second.starts_with(first);
}

std::string whole_text_pattern(std::string_view pattern, std::string_view filler) {
  std::string out = "(?:";
  int depth = 0;          // of parentheses
  bool in_class = false;  // [...]
  bool at_start = true;   // of an alternative
  bool at_end = false;    // behind its $
  bool ends_in_escape = false;
  const auto end_alternative = [&] {
    if (!at_end) out += filler;
  };
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    const bool outside = depth == 0 && !in_class;
    if (at_start) {
      at_start = at_end = false;
      if (c == '^') continue;
      if (contains(std::string_view("*+?{"), c)) return std::string(pattern);
      out += filler;
    }
    if (outside && c == '$' && (i + 1 == pattern.size() || pattern[i + 1] == '|')) {
      at_end = true;
      continue;
    }
    if (outside && c == '|') {
      end_alternative();
      out += '|';
      at_start = true;
      continue;
    }
    const bool escapes = c == '\\' && i + 1 < pattern.size();
    ends_in_escape = c == '\\' && !escapes;
    if (std::size_t next = i + escapes; static_cast<unsigned char>(pattern[next]) >= 0x80) {
      out += formatted("\\u{%x}", static_cast<unsigned>(next_code_point(pattern, next)));
      i = next - 1;
      continue;
    }
    out += c;
    if (escapes) {
      out += pattern[++i];
    } else if (in_class) {
      in_class = c != ']';
    } else if (c == '[') {
      in_class = true;
    } else if (c == '(') {
      ++depth;
    } else if (c == ')' && --depth < 0) {
      return std::string(pattern);
    }
  }
  if (in_class || ends_in_escape) return std::string(pattern);
  if (at_start) {
    out += filler;
  } else {
    end_alternative();
  }
  return out + ")";
}

}  // namespace glint
