// The only translation unit that includes spdlog.
#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "base/check.h"
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

// The sink colours the level on terminals only.
spdlog::logger make_logger() {
  spdlog::logger logger("glint", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  // On a terminal a progress bar (base/progress.h) may stand in the line: erase it, it comes back
  // by itself.
  const std::string erase = is_terminal(STDERR_FILENO) ? "\r\x1b[K" : "";
  logger.set_pattern(erase + "%H:%M:%S.%e %^%l%$: %v");
  logger.set_level(spdlog::level::warn);
  logger.flush_on(spdlog::level::debug);
  return logger;
}

spdlog::logger& logger() {
  static spdlog::logger the_logger = make_logger();
  return the_logger;
}

}  // namespace

void set_log_level(LogLevel level) { logger().set_level(to_spdlog(level)); }

bool log_enabled(LogLevel level) { return logger().should_log(to_spdlog(level)); }

void log(LogLevel level, const std::string& line) { logger().log(to_spdlog(level), line); }

}  // namespace glint
