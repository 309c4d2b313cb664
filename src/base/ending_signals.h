// Signals by which a terminal, a service manager or a closed pipe ends a program.
#pragma once

#include <signal.h>

namespace glint {

// From now on they do not end this one.
inline void ignore_ending_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(number, SIG_IGN);
}

}  // namespace glint
