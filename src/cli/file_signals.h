// Turns signals about files into errors: a write beyond the limit of file sizes fails with EFBIG,
// and reading a mapped file that was cut short, or whose disk fails, ends the program with exit
// code 2 and a sentence that names the file.
#pragma once

namespace glint {

// Once, before a file is opened.
void handle_file_signals();

}  // namespace glint
