// Ctrl-C. Without a guard it ends the program at once, with exit code 130; while an InterruptGuard
// exists it only raises a flag, and the command ends what it does in its own way. A second Ctrl-C
// before the flag is lowered ends the program.
#pragma once

namespace glint {

inline constexpr int kInterruptedExitCode = 130;  // 128 + SIGINT, as shells count

// Installs the handler; main() calls it first.
void handle_interrupts();

// At most one at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  bool interrupted() const;
  void reset();  // lowers the flag
};

}  // namespace glint
