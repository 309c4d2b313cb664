// Ctrl-C, SIGTERM, and SIGHUP of a terminal that closes. Without a guard they end the program at
// once; while an InterruptGuard exists the first only raises a flag, and the command ends what it
// does in its own way. A second Ctrl-C or SIGTERM meanwhile ends the program.
#pragma once

#include "base/owned_fd.h"

namespace glint {

// Ends the program now, from any thread, without waiting for any other.
[[noreturn]] void end_program(int exit_code);

// 128 and the signal by which a guard was interrupted last, as shells count.
int interrupted_exit_code();

// Installs the handler of Ctrl-C; main() calls it first.
void handle_interrupts();

// From now on no signal that ends programs ends this one: another process hears them, and
// shut_down() does here what a SIGTERM would.
void ignore_interrupts();
void shut_down();

// At most one at a time.
class InterruptGuard {
 public:
  enum class Hears { kAll, kCtrlC };
  explicit InterruptGuard(Hears hears = Hears::kAll);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  bool interrupted() const;  // by a signal or shut_down()

 private:
  const Hears hears_;
};

// Ending a server. While it exists, the first SIGTERM, SIGINT or SIGHUP makes wait_for() return
// true, and the next SIGTERM or SIGINT ends the program at once; from then on a write to a closed
// pipe is an error and no signal. At most one at a time, and no InterruptGuard beside it.
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
