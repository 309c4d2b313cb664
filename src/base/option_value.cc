#include "base/option_value.h"

#include <cmath>

#include "base/json.h"
#include "base/parse_number.h"
#include "base/str.h"

namespace glint {
namespace {

template <class T>
bool read_number(std::string_view text, T& value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const std::optional<T> number = parse_number<T>(text);
  value = number.value_or(value);
  return number.has_value();
}

}  // namespace

bool parse_option(std::string_view text, bool& value) {
  value = text == "true" || text == "on" || text == "yes" || text == "1";
  return value || text == "false" || text == "off" || text == "no" || text == "0";
}
bool parse_option(std::string_view text, int& value) { return read_number(text, value); }
bool parse_option(std::string_view text, std::int64_t& value) { return read_number(text, value); }
bool parse_option(std::string_view text, std::uint64_t& value) { return read_number(text, value); }
bool parse_option(std::string_view text, float& value) {
  return read_number(text, value) && std::isfinite(value);
}
bool parse_option(std::string_view text, double& value) {
  return read_number(text, value) && std::isfinite(value);
}
bool parse_option(std::string_view text, std::string& value) {
  value = text;
  return true;
}
bool parse_option(std::string_view text, std::vector<int>& value) {
  value.clear();
  for (const std::string_view piece : split(text, ',')) {
    if (!parse_option(piece, value.emplace_back())) return false;
  }
  return true;
}

std::string option_text(bool value) { return value ? "on" : ""; }
std::string option_text(std::int64_t value) { return std::to_string(value); }
std::string option_text(std::uint64_t value) { return std::to_string(value); }
std::string option_text(double value) {
  std::string text = format_double(value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}
std::string option_text(const std::string& value) { return value; }
std::string option_text(const std::vector<int>& value) {
  std::string text;
  for (const int n : value) text += (text.empty() ? "" : ",") + std::to_string(n);
  return text;
}

}  // namespace glint
