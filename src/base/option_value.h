// A value of each kind that an option may have, from and to its text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace glint {

// False: the text is none.
bool parse_option(std::string_view text, bool& value);
bool parse_option(std::string_view text, int& value);
bool parse_option(std::string_view text, std::int64_t& value);
bool parse_option(std::string_view text, std::uint64_t& value);
bool parse_option(std::string_view text, float& value);
bool parse_option(std::string_view text, double& value);
bool parse_option(std::string_view text, std::string& value);
bool parse_option(std::string_view text, std::vector<int>& value);

// The words of a refusal, and the letter of the help.
struct OptionKind {
  const char* expects;
  const char* value_name;
};
constexpr OptionKind option_kind(const bool*) { return {"true or false", ""}; }
constexpr OptionKind option_kind(const int*) { return {"an integer of at most 32 bits", "N"}; }
constexpr OptionKind option_kind(const std::int64_t*) {
  return {"an integer of at most 64 bits", "N"};
}
constexpr OptionKind option_kind(const std::uint64_t*) {
  return {"an integer from 0 to 2^64 - 1", "N"};
}
constexpr OptionKind option_kind(const float*) { return {"a number", "X"}; }
constexpr OptionKind option_kind(const double*) { return {"a number", "X"}; }
constexpr OptionKind option_kind(const std::string*) { return {"a text", "TEXT"}; }
constexpr OptionKind option_kind(const std::vector<int>*) {
  return {"integers with commas between", "N,.."};
}

// The text of a default.
std::string option_text(bool value);
std::string option_text(std::int64_t value);
std::string option_text(std::uint64_t value);
std::string option_text(double value);
std::string option_text(const std::string& value);
std::string option_text(const std::vector<int>& value);
inline std::string option_text(int value) { return option_text(std::int64_t{value}); }
inline std::string option_text(float value) { return option_text(double{value}); }

}  // namespace glint
