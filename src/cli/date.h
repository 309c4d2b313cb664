// The time of day, as files and pages name it.
#pragma once

#include <ctime>
#include <string>

namespace glint {

// The local time, as strftime() writes it by `format`.
inline std::string date_now(const char* format) {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, format, &local);
  return text;
}

}  // namespace glint
