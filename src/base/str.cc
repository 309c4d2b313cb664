#include "base/str.h"

#include <algorithm>
#include <charconv>
#include <cstdarg>
#include <cstdio>
#include <utility>

#include "base/utf8.h"

namespace glint {

Printed::Printed(double number)
    : text_(digits_,
            static_cast<std::size_t>(std::snprintf(digits_, sizeof digits_, "%g", number))) {}

void Printed::print(std::uint64_t number) {
  text_ = {digits_, std::to_chars(digits_, digits_ + sizeof digits_, number).ptr};
}

void Printed::print(std::int64_t number) {
  text_ = {digits_, std::to_chars(digits_, digits_ + sizeof digits_, number).ptr};
}

std::string joined(std::initializer_list<Printed> pieces) {
  std::size_t size = 0;
  for (const Printed& piece : pieces) size += piece.text().size();
  std::string text;
  text.reserve(size);
  for (const Printed& piece : pieces) text += piece.text();
  return text;
}

std::string joined(std::span<const std::string> pieces, std::string_view between) {
  std::string text;
  for (const std::string& piece : pieces) text += str(text.empty() ? "" : between, piece);
  return text;
}

std::string formatted(const char* format, ...) {
  std::va_list measured, printed;
  va_start(measured, format);
  va_copy(printed, measured);
  std::string text(static_cast<std::size_t>(std::vsnprintf(nullptr, 0, format, measured)), '\0');
  va_end(measured);
  std::vsnprintf(text.data(), text.size() + 1, format, printed);
  va_end(printed);
  return text;
}

std::string with_commas(std::int64_t n) {
  std::string digits = std::to_string(n);
  const std::size_t first = n < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

std::string counted(std::int64_t n, std::string_view thing) {
  return str(n, " ", thing, n == 1 ? "" : "s");
}

std::string duration_text(double seconds) {
  const auto s = static_cast<std::int64_t>(seconds + 0.5);
  if (s < 60) return str(s, " s");
  if (s < 3600) return str(s / 60, " min ", s % 60, " s");
  return str(s / 3600, " h ", s / 60 % 60, " min");
}

std::string human_bytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 5) bytes /= 1024, ++unit;
  return formatted("%.4g %s", bytes, kUnits[unit]);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (;;) {
    const std::size_t at = text.find(separator);
    pieces.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return pieces;
    text.remove_prefix(at + 1);
  }
}

std::vector<std::string_view> words_of(std::string_view text, std::string_view blanks) {
  std::vector<std::string_view> words;
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
    if (text.empty()) return words;
    words.push_back(text.substr(0, text.find_first_of(blanks)));
    text.remove_prefix(words.back().size());
  }
}

std::string_view trimmed(std::string_view text, std::string_view blanks) {
  const std::size_t begin = std::min(text.find_first_not_of(blanks), text.size());
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return out;
}

namespace {

// Bytes of the character that `text` begins with; 0 if that is no valid UTF-8, or a control
// character.
std::size_t printable_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t size = first_character(text);
  const bool is_control = size == 1   ? byte(0) < 0x20 || byte(0) == 0x7f
                          : size == 2 ? byte(0) == 0xc2 && byte(1) < 0xa0
                                      : false;
  return is_control ? 0 : size;
}

}  // namespace

std::string quoted(std::string_view text, std::size_t max_bytes) {
  const bool cut = text.size() > max_bytes;
  text = text.substr(0, max_bytes);
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t size = printable_bytes(text);
    if (size > 0 && text[0] != '"' && text[0] != '\\') {
      out += text.substr(0, size);
      text.remove_prefix(size);
      continue;
    }
    out +=
        size > 0 ? str('\\', text[0]) : formatted("\\x%02x", static_cast<unsigned char>(text[0]));
    text.remove_prefix(1);
  }
  return out + (cut ? "...\"" : "\"");
}

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

namespace {

// Levenshtein distance, case ignored.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = (a[i - 1] | 0x20) == (b[j - 1] | 0x20);
      const std::size_t best = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (same ? 0 : 1)});
      diagonal = std::exchange(row[j], best);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const auto begins = [&](const std::string& candidate) { return candidate.starts_with(word); };
  if (!word.empty() && std::count_if(candidates.begin(), candidates.end(), begins) == 1)
    return *std::find_if(candidates.begin(), candidates.end(), begins);
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) best = candidate, best_distance = distance;
  }
  return best;
}

}  // namespace glint
