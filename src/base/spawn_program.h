// A program as a process of ours, with few descriptors.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <vector>

#include "base/owned_fd.h"
#include "base/result.h"

namespace glint {

struct SpawnOptions {
  bool own_group = false;                    // what a terminal signals to us is not signalled to it
  bool dies_of_pipes = false;                // by SIGPIPE, as from a shell, though we ignore it
  bool prints_to_error = false;              // its standard output is our standard error
  const OwnedFd* in_and_out = nullptr;       // a socket that is its standard input and output
  const OwnedFd* out_and_error = nullptr;    // instead of ours
  std::span<const OwnedFd* const> fds = {};  // its descriptors from 3 on
  const std::vector<std::string>* environment = nullptr;  // NAME=value, instead of ours
};

// Starts `command`, a path and arguments, with an empty standard input, no signal blocked, and no
// other descriptor of ours. Fails with kUnavailable, naming what could not be done.
Result<pid_t> spawn_program(const std::vector<std::string>& command, const SpawnOptions& options);

}  // namespace glint
