// The log: timed lines on stderr for whoever operates the program. Answers and errors of commands
// do not go here.
#pragma once

#include <string>

namespace glint {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Lines below `level` are dropped; kWarning at first. Like all of this file, from any thread.
void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);

void log(LogLevel level, const std::string& line);
// Also if lines of `level` are dropped: for what the program has to tell in any case.
void log_always(LogLevel level, const std::string& line);

// kJson: every line is an object, {"time": "2026-01-31T12:00:00.000Z", "level": "info", "message":
// ...}.
enum class LogFormat { kText, kJson };
void set_log_format(LogFormat format);

// Logs one thing as words and as fields: kText shows `line`, kJson the members of `object` (a JSON
// object) after time and level.
void log_fields(LogLevel level, const std::string& line, const std::string& object);

}  // namespace glint

// GLINT_LOG(kInfo, str("loaded ", n, " tensors")): the text is made only if it will be shown.
#define GLINT_LOG(level, line)                          \
  do {                                                  \
    if (::glint::log_enabled(::glint::LogLevel::level)) \
      ::glint::log(::glint::LogLevel::level, (line));   \
  } while (false)
