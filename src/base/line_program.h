// LineProgram: another program that answers a line with a line, as a user of ours wrote it in
// whatever language. It is started once, reads questions on its standard input until that ends,
// and writes answers to its standard output; its errors come where ours do.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>

#include "base/owned_fd.h"
#include "base/result.h"

namespace glint {

class LineProgram {
 public:
  // Starts `command` by the shell. What goes wrong, here and below, is kUnavailable, with a
  // sentence that names the command.
  static Result<LineProgram> start(const std::string& command);
  // Ends it, in a few seconds at most.
  ~LineProgram();
  LineProgram(LineProgram&& other) noexcept;
  LineProgram& operator=(LineProgram&&) = delete;

  // The answer to `line`, which has no newline, without its own. Fails if it takes longer than
  // `seconds`, if the program has ended or written before it was asked, when `goes_on` says false,
  // and from the first failure on.
  Result<std::string> ask(std::string_view line, double seconds,
                          const std::function<bool()>& goes_on = {});

  // After the last of some questions: fails if more comes within a moment. Then a line was too much
  // before, and each answer may have been that to another question.
  Status check_silence();

 private:
  LineProgram(std::string command, OwnedFd socket, pid_t pid);
  Error fail(const std::string& why);
  Status check_silence(int milliseconds);

  std::string command_;
  OwnedFd socket_;
  pid_t pid_ = 0;
  std::string read_;  // and not given back yet
  bool failed_ = false;
};

}  // namespace glint
