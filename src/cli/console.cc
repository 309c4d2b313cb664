#include "cli/console.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/str.h"
#include "base/terminal.h"

namespace glint {

namespace {

// Bytes of the control character that `text` begins with; 0: none. Those from U+0080 to U+009F
// have two.
std::size_t control_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x20 || byte(0) == 0x7f) return 1;
  return text.size() > 1 && byte(0) == 0xc2 && byte(1) < 0xa0 ? 2 : 0;
}

bool begins_with_space(std::string_view text) {
  return text[0] == '\n' || text[0] == '\t' || text.starts_with("\r\n");
}

// With control characters as \x1b; tabs and ends of lines too, unless they are kept.
std::string escaped(std::string_view text, bool keeps_spaces) {
  std::string out;
  while (!text.empty()) {
    const std::size_t size = keeps_spaces && begins_with_space(text) ? 0 : control_bytes(text);
    for (const char c : text.substr(0, size))
      out += formatted("\\x%02x", static_cast<unsigned char>(c));
    if (size == 0) out += text[0];
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return out;
}

}  // namespace

std::string one_line(std::string_view text) { return escaped(text, false); }

void keep_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    // For the wrong direction, so that reading or writing it is an error. The lowest number that is
    // free is this one.
    ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

Console::Console(std::FILE* out, std::FILE* err, bool no_color)
    : out_(out),
      err_(err),
      out_is_terminal_(is_terminal(fileno(out))),
      err_is_terminal_(is_terminal(fileno(err))),
      color_(out_is_terminal_ && !no_color) {}

void Console::print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), out_) < text.size()) keep_error();
}

void Console::flush() {
  if (std::fflush(out_) != 0) keep_error();
}

void Console::end_line() {
  flush();
  if (out_is_terminal_ || err_is_terminal_) std::fputc('\n', out_is_terminal_ ? out_ : err_);
}

void Console::note(std::string_view line, LogLevel level) {
  flush();
  if (logs_notes_) return log_always(level, one_line(trimmed(line)));
  const std::string text = one_line(line) + "\n";
  std::fwrite(text.data(), 1, text.size(), err_);
  std::fflush(err_);
}

std::string Console::shown(std::string_view text) const {
  return out_is_terminal_ ? escaped(text, true) : std::string(text);
}

int Console::width() const { return terminal_width(fileno(out_)); }

std::string Console::styled(std::string_view code, std::string_view text) const {
  return color_ ? str(code, text, "\x1b[0m") : std::string(text);
}

Status Console::close() {
  flush();
  if (error_ == 0) return Ok{};
  return exhausted(str("cannot write to standard output: ", std::strerror(error_)));
}

void Console::keep_error() {
  if (error_ == 0) error_ = errno;
}

}  // namespace glint
