// Ctrl-C. Without a guard it ends the program at once, with exit code 130; while an InterruptGuard
// exists it only raises a flag, and the command ends what it does in its own way. A second Ctrl-C
// meanwhile ends the program.
#pragma once

#include "base/owned_fd.h"

namespace glint {

inline constexpr int kInterruptedExitCode = 130;  // 128 + SIGINT, as shells count

// Ends the program now, from any thread, without waiting for any other.
[[noreturn]] void end_program(int exit_code);

// Installs the handler; main() calls it first.
void handle_interrupts();

// From now on no signal that ends programs ends this one: another process hears them, and
// shut_down() does here what a SIGTERM would.
void ignore_interrupts();
void shut_down();

// At most one at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  bool interrupted() const;  // by Ctrl-C or shut_down()
};

// Ending a server. While it exists, the first SIGTERM or SIGINT makes wait_for() return true, and
// the next one ends the program at once; from then on a write to a closed pipe is an error and no
// signal. At most one at a time, and no InterruptGuard beside it.
class ShutdownGuard {
 public:
  ShutdownGuard();
  ~ShutdownGuard();
  ShutdownGuard(const ShutdownGuard&) = delete;
  ShutdownGuard& operator=(const ShutdownGuard&) = delete;

  // Waits so long for the first signal; whether it came.
  bool wait_for(double seconds);

  // The work has ended well: until the program's own end, signals end it at once with exit code 0.
  void work_is_done();

 private:
  OwnedFd read_end_, write_end_;  // of a pipe that the handler writes to
};

}  // namespace glint
