// Signals by which a terminal, a service manager or a closed pipe ends a program, and those by
// which a terminal stops it, lets it go on, and tells its size.
#pragma once

#include <signal.h>

namespace glint {

inline constexpr int kEndingSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};

// From now on they do not end this one.
inline void ignore_ending_signals() {
  for (const int number : kEndingSignals) ::signal(number, SIG_IGN);
}

// The calling thread hears of none of the latter: their handlers are those of the line editor,
// whose state belongs to the main thread.
inline void leave_terminal_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTSTP, SIGCONT, SIGWINCH}) sigaddset(&set, number);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

}  // namespace glint
