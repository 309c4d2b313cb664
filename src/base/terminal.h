// The terminal of a file descriptor, if any: decides colour, progress bars and the width of help
// pages.
#pragma once

namespace glint {

bool is_terminal(int fd);

// Columns of the terminal at `fd`; 80 if it is none.
int terminal_width(int fd);

}  // namespace glint
