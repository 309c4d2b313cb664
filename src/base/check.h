// GLINT_CHECK: an invariant of glint itself. Never for what a user or a file can cause: that is a
// Result (result.h).
#pragma once

#include <string>

namespace glint {

// Prints "FILE:LINE: CONDITION: message" to stderr and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message);

}  // namespace glint

// Aborts with `message` (anything that converts to std::string; evaluated only on failure) unless
// `condition` holds.
#define GLINT_CHECK(condition, message)                                 \
  do {                                                                  \
    if (!(condition)) [[unlikely]]                                      \
      ::glint::check_failed(__FILE__, __LINE__, #condition, (message)); \
  } while (false)
