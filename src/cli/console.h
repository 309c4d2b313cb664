// Console: where commands print. Answers go to stdout and nothing else does; remarks go to stderr.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "base/log.h"
#include "base/result.h"

namespace glint {

// A standard stream that was closed by whoever started the program keeps its number, and fails as
// before: else the next file that is opened would get the number, and what is printed.
void keep_standard_streams();

// A sentence shows names of files and tensors, and what servers say, which may hold anything:
// control characters as \x1b.
std::string one_line(std::string_view text);

class Console {
 public:
  // Writes to `out` and `err`, which stay the caller's. Colours appear only on terminals, and not
  // if `no_color`.
  Console(std::FILE* out, std::FILE* err, bool no_color);

  // Appends `text` to stdout.
  void print(std::string_view text);

  // Makes what was printed visible: after each piece of a stream.
  void flush();

  // Ends the last line of a streamed text on the terminal that shows it, also where it comes there
  // through a pipe: a file or a pipe gets the text and nothing else.
  void end_line();

  // Prints a line on stderr, without breaks or control characters (one_line()); after log_notes()
  // a line of the log, of this level, also where the log drops those.
  void note(std::string_view line, LogLevel level = LogLevel::kInfo);
  // For programs, which read all of stderr as the log.
  void log_notes() { logs_notes_ = true; }

  // A text that a model or another machine wrote, as it should be printed to stdout: a terminal
  // shows its control characters, and does not obey them.
  std::string shown(std::string_view text) const;

  // `text` as it should be printed to stdout: dim or bold on a terminal, else unchanged.
  std::string dim(std::string_view text) const { return styled("\x1b[2m", text); }
  std::string bold(std::string_view text) const { return styled("\x1b[1m", text); }

  bool out_is_terminal() const { return out_is_terminal_; }
  bool err_is_terminal() const { return err_is_terminal_; }
  bool color() const { return color_; }  // on stdout
  int width() const;                     // columns of stdout

  // Nothing that is printed to stdout arrives any more.
  bool lost_out() const { return error_ != 0; }

  // Flushes; fails if anything printed to stdout could not be written (a full disk).
  Status close();

 private:
  std::string styled(std::string_view code, std::string_view text) const;
  void keep_error();

  std::FILE* out_;
  std::FILE* err_;
  bool out_is_terminal_, err_is_terminal_, color_;
  bool logs_notes_ = false;
  int error_ = 0;  // errno of the first write to stdout that failed
};

}  // namespace glint
