#include "cli/line_editor.h"

// clang-format off
#include <cstdio>   // before the next one, which needs FILE
#include <editline/readline.h>
// clang-format on

#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>

namespace glint {
namespace {

constexpr int kHistoryLines = 1000;
constexpr int kPasteMs = 10;  // between two lines of a paste at most

// While a line is edited, Ctrl-C is a key like any other, and no signal, which would end the
// program.
class InterruptKeyOff {
 public:
  InterruptKeyOff() {
    is_terminal_ = ::tcgetattr(STDIN_FILENO, &before_) == 0;
    struct termios off = before_;
    off.c_cc[VINTR] = _POSIX_VDISABLE;
    if (is_terminal_) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &off);
  }
  ~InterruptKeyOff() {
    if (is_terminal_) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  }
  InterruptKeyOff(const InterruptKeyOff&) = delete;
  InterruptKeyOff& operator=(const InterruptKeyOff&) = delete;

 private:
  struct termios before_ = {};
  bool is_terminal_ = false;
};

}  // namespace

LineEditor::LineEditor(bool interactive, std::string history_file)
    : interactive_(interactive), history_file_(std::move(history_file)) {
  if (!interactive_) return;
  // Text is UTF-8 here, whatever the environment says; without this the editor drops what is not
  // ASCII.
  if (!std::setlocale(LC_CTYPE, "C.UTF-8")) std::setlocale(LC_CTYPE, "");
  rl_initialize();
  // A tab is a character of the text, and completes no name of a file.
  for (std::string binding : {"bind ^C em-kill-line", "bind ^I ed-insert"}) {
    rl_parse_and_bind(binding.data());
  }
  using_history();
  stifle_history(kHistoryLines);
  if (history_file_.empty()) return;
  // Lines are appended to it, by others at the same time, too; what is too much goes at the start.
  const char* const file = history_file_.c_str();
  if (read_history(file) != 0) write_history(file);
  if (history_length == kHistoryLines) history_truncate_file(file, kHistoryLines);
}

std::optional<std::string> LineEditor::read(const std::string& prompt) {
  if (!interactive_) {
    std::optional<std::string> line = lines_.next();
    if (line && line->ends_with('\r')) line->pop_back();
    return line;
  }
  const InterruptKeyOff key_off;
  char* const line = readline(prompt.c_str());
  if (!line) {
    std::puts("");  // Ctrl-D leaves the cursor behind the prompt
    return {};
  }
  std::string text = line;
  std::free(line);
  if (text.empty()) return text;
  add_history(text.c_str());
  // Each time: the program may be killed, or its terminal closed.
  if (!history_file_.empty()) append_history(1, history_file_.c_str());
  return text;
}

bool LineEditor::pastes() const { return has_input(kPasteMs); }

bool LineEditor::has_input(int wait_ms) const {
  if (!interactive_) return false;
  struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  return ::poll(&input, 1, wait_ms) > 0;
}

}  // namespace glint
