// The numbers that an option may be, refused in one form of words.
#pragma once

#include <string_view>
#include <type_traits>

#include "base/option_value.h"
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

}  // namespace glint
