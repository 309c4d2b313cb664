#include "base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace glint {

bool is_terminal(int fd) { return ::isatty(fd) == 1; }

int terminal_width(int fd) {
  struct winsize size = {};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace glint
