// Strings: str(a, b, ...) joins anything printable (C++20's <format> is missing from our
// compilers), and small helpers.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace glint {

// The arguments printed one after another: str("layer ", 3, ": ", name).
template <class... Args>
std::string str(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return std::move(out).str();
}

// printf's text, whatever its length: formatted("%.1f %%", 12.5).
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...);

// "743,911,218,432".
std::string with_commas(std::int64_t n);

// "1.39 TiB", "704.2 GiB", "12 B": four significant digits, binary units.
std::string human_bytes(double bytes);

// The pieces of `text` between occurrences of `separator`; one empty piece for an empty text.
std::vector<std::string_view> split(std::string_view text, char separator);

// With the letters A to Z small.
std::string lower(std::string_view text);

// `text` in double quotes, control characters and invalid UTF-8 escaped, cut after `max_bytes`: for
// error messages that show hostile input.
std::string quoted(std::string_view text, std::size_t max_bytes = 80);
// std::quoted would win for these types where <iomanip> is included.
inline std::string quoted(const std::string& text, std::size_t max_bytes = 80) {
  return quoted(std::string_view(text), max_bytes);
}
inline std::string quoted(const char* text, std::size_t max_bytes = 80) {
  return quoted(std::string_view(text), max_bytes);
}

// `text` for the inside of an element or of a quoted attribute of HTML or XML; character for
// character as Python's markupsafe.
std::string escape_html(std::string_view text);

// Which of `candidates` a user who typed `word` may have meant; empty if none is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace glint
