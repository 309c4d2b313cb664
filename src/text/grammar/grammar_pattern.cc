#include "text/grammar/grammar_pattern.h"

#include <algorithm>
#include <vector>

#include "base/str.h"
#include "text/tokenizer/unicode.h"

namespace glint {
namespace {

constexpr std::int64_t kMaxExpression = 5000;  // characters and classes, repetitions written out
constexpr std::int64_t kMostRepetitions = 1 << 30;  // counted; what is beyond is as large

}  // namespace

Status check_expression_size(std::string_view expression) {
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
      std::int64_t count = 0, most = 0;
      for (; i + 1 < expression.size() && expression[i + 1] != '}'; ++i) {
        const char digit = expression[i + 1];
        if (digit < '0' || digit > '9') count = 0;
        if (digit >= '0' && digit <= '9')
          count = std::min(count * 10 + digit - '0', kMostRepetitions);
        most = std::max(most, count);
      }
      add((most > 0 ? most - 1 : 0) * groups.back().last);
    } else if (std::string_view("*+?|^$").find(c) == std::string_view::npos) {
      add(1);
    }
  }
  if (largest <= kMaxExpression) return Ok{};
  return invalid(str("the expression is too large: its repetitions come to more than ",
                     with_commas(kMaxExpression), " characters"));
}

std::string whole_text_pattern(std::string_view pattern, std::string_view filler) {
  std::string out = "(?:";
  int depth = 0;          // of parentheses
  bool in_class = false;  // [...]
  bool at_start = true;   // of an alternative
  bool at_end = false;    // behind its $
  const auto end_alternative = [&] {
    if (!at_end) out += filler;
  };
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    const bool outside = depth == 0 && !in_class;
    if (at_start) {
      at_start = at_end = false;
      if (c == '^') continue;
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
    } else if (c == ')') {
      --depth;
    }
  }
  if (at_start) {
    out += filler;
  } else {
    end_alternative();
  }
  return out + ")";
}

}  // namespace glint
