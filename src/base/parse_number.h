// Texts that are numbers, and nothing else.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace glint {

// All of `text`, in decimal, without blanks or '+'; nothing if it is anything else, or beyond T.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value = {};
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && at == end ? std::optional(value) : std::nullopt;
}

}  // namespace glint
