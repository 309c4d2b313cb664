// Strings: str(a, b, ...) joins texts and numbers (C++20's <format> is missing from our compilers),
// and small helpers.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace glint {

// An argument of str(), for as long as the call lasts: a text, or the digits of a number.
class Printed {
 public:
  Printed(std::string_view text) : text_(text) {}
  Printed(const char* text) : text_(text) {}
  Printed(char c) : digits_{c}, text_(digits_, 1) {}
  Printed(double number);  // as printf's %g
  template <std::integral T>
  requires(sizeof(T) > 1 || std::same_as<T, bool>)  // a byte: is a letter meant, or a number?
      Printed(T number) {
    if constexpr (std::unsigned_integral<T>) {
      print(static_cast<std::uint64_t>(number));
    } else {
      print(static_cast<std::int64_t>(number));
    }
  }
  Printed(const Printed&) = delete;  // text_ may point into it
  Printed& operator=(const Printed&) = delete;

  std::string_view text() const { return text_; }

 private:
  void print(std::uint64_t number);
  void print(std::int64_t number);

  char digits_[24];
  std::string_view text_;
};
std::string joined(std::initializer_list<Printed> pieces);

// The arguments printed one after another: str("layer ", 3, ": ", name). No template but this line,
// because it stands in a thousand places.
template <class... Args>
std::string str(const Args&... args) {
  return joined({Printed(args)...});
}
std::string joined(std::span<const std::string> pieces, std::string_view between);

// printf's text, whatever its length: formatted("%.1f %%", 12.5).
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...);

// "743,911,218,432".
std::string with_commas(std::int64_t n);

// "1 file", "2 files".
std::string counted(std::int64_t n, std::string_view thing);

// "42 s", "3 min 5 s", "2 h 10 min".
std::string duration_text(double seconds);

// "1.39 TiB", "704.2 GiB", "12 B": four significant digits, binary units.
std::string human_bytes(double bytes);
std::string human_bytes(std::integral auto bytes) {
  return human_bytes(static_cast<double>(bytes));
}

// The pieces of `text` between occurrences of `separator`; one empty piece for an empty text.
std::vector<std::string_view> split(std::string_view text, char separator);

// The parts between `blanks`, none of them empty.
std::vector<std::string_view> words_of(std::string_view text, std::string_view blanks = " \t\r\n");

// The part between the `blanks` at both ends.
std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\r\n");

// ASCII's, whatever the locale.
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_alnum(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
constexpr bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// With the letters A to Z small.
std::string lower(std::string_view text);

// `text` in double quotes, control characters and invalid UTF-8 escaped, cut after `max_bytes`: for
// error messages that show hostile input.
std::string quoted(std::string_view text, std::size_t max_bytes = 80);
// std::quoted would win for these types where <iomanip> is included.
inline std::string quoted(const std::string& text, std::size_t max_bytes = 80) {
  return quoted(std::string_view(text), max_bytes);
}
inline std::string quoted(std::string& text, std::size_t max_bytes = 80) {
  return quoted(std::string_view(text), max_bytes);
}
inline std::string quoted(const char* text, std::size_t max_bytes = 80) {
  return quoted(std::string_view(text), max_bytes);
}
// A path whole: who is to look at it, or to remove it, needs all of it.
inline std::string quoted_path(std::string_view path) { return quoted(path, 4096); }

// `text` for the inside of an element or of a quoted attribute of HTML or XML; character for
// character as Python's markupsafe.
std::string escape_html(std::string_view text);

// Which of `candidates` a user who typed `word` may have meant; empty if none is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace glint
