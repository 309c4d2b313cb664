// The only translation unit that includes spdlog.
#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <memory>

#include "base/check.h"
#include "base/json.h"
#include "base/str.h"
#include "base/terminal.h"

namespace glint {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  GLINT_CHECK(false, "no such log level");
}

// On a terminal a progress bar (base/progress.h) may stand in the line: erase it, it comes back by
// itself.
std::string erase_line() { return is_terminal(STDERR_FILENO) ? "\r\x1b[K" : ""; }

// The sink colours the level on terminals only. What is kept has its date.
void set_pattern(spdlog::logger& logger, LogFormat format) {
  if (format == LogFormat::kText) {
    const char* date = is_terminal(STDERR_FILENO) ? "" : "%Y-%m-%d ";
    logger.set_pattern(str(erase_line(), date, "%H:%M:%S.%e %^%l%$: %v"));
  } else {
    logger.set_pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v)",
                       spdlog::pattern_time_type::utc);
  }
}

struct Log {
  Log()
      : logger("glint", std::make_shared<spdlog::sinks::stderr_color_sink_mt>()),
        unfiltered("glint", logger.sinks().front()) {
    set_pattern(logger, LogFormat::kText);
    logger.set_level(spdlog::level::warn);
    logger.flush_on(spdlog::level::debug);
    unfiltered.set_level(spdlog::level::debug);
    unfiltered.flush_on(spdlog::level::debug);
  }

  spdlog::logger logger, unfiltered;  // of one sink, which has the pattern
  std::atomic<bool> json = false;
};

Log& the_log() {
  static Log log;
  return log;
}

void log_to(spdlog::logger& logger, LogLevel level, const std::string& line) {
  if (!the_log().json) return logger.log(to_spdlog(level), line);
  std::string members = "\"message\":";
  append_json_string(members, line);
  logger.log(to_spdlog(level), members + "}");
}

}  // namespace

void set_log_level(LogLevel level) { the_log().logger.set_level(to_spdlog(level)); }

bool log_enabled(LogLevel level) { return the_log().logger.should_log(to_spdlog(level)); }

void set_log_format(LogFormat format) {
  set_pattern(the_log().logger, format);
  the_log().json = format == LogFormat::kJson;
}

void log(LogLevel level, const std::string& line) { log_to(the_log().logger, level, line); }

void log_always(LogLevel level, const std::string& line) {
  log_to(the_log().unfiltered, level, line);
}

void log_fields(LogLevel level, const std::string& line, const std::string& object) {
  GLINT_CHECK(object.size() > 2 && object.front() == '{', object);
  the_log().logger.log(to_spdlog(level), the_log().json ? object.substr(1) : line);
}

}  // namespace glint
