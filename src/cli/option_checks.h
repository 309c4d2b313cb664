// Checks of options, refused in one form of words: the numbers that one may be, and those that have
// no meaning with, or without, others.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/option_value.h"
#include "base/options.h"
#include "base/result.h"
#include "base/str.h"

namespace glint {

// As the user would write it.
template <class T>
std::string number_text(T value) {
  if constexpr (std::is_floating_point_v<T>) return option_text(double{value});
  return str(value);
}

template <class T>
Status check_range(std::string_view option, T value, std::type_identity_t<T> least,
                   std::type_identity_t<T> most) {
  if (value >= least && value <= most) return Ok{};
  return invalid(str("--", option, " is ", number_text(value), "; it must be from ",
                     number_text(least), " to ", number_text(most)));
}

template <class T>
Status check_least(std::string_view option, T value, std::type_identity_t<T> least) {
  if (value >= least) return Ok{};
  return invalid(str("--", option, " is ", number_text(value), "; it must be ", number_text(least),
                     " or more"));
}

// Seconds to wait for a server.
inline Status check_timeout(double seconds) {
  if (seconds > 0 && seconds <= 1e6) return Ok{};
  return invalid(str("--timeout is ", seconds, "; it must be above 0 and at most 1e6 seconds"));
}

// An option that says something about another one.
struct Companion {
  const char* name;
  bool given;
  const char* needs;  // for people
  bool there;
};

inline Status check_needs(std::initializer_list<Companion> all) {
  for (const auto& [name, given, needs, there] : all) {
    if (given && !there) return invalid(str(name, " needs ", needs));
  }
  return Ok{};
}

// The first name that is given; empty if none is.
inline std::string_view first_of(std::initializer_list<std::pair<std::string_view, bool>> all) {
  for (const auto& [name, given] : all) {
    if (given) return name;
  }
  return {};
}

// Whether the user gave the option, be it with its default.
inline bool is_given(const OptionList& list, std::string_view name) {
  const Option* const option = list.find(name);
  return option && option->is_set;
}

// "--name" of the first that the user gave of those that Options has, too, but for positionals;
// empty if none is.
template <class Options>
std::string first_given(const OptionList& list) {
  Options of_these;
  const OptionList these(of_these);
  for (const Option& option : list.options()) {
    if (option.is_positional || !option.is_set) continue;
    if (these.find(option.name)) return option.display();
  }
  return {};
}

}  // namespace glint
