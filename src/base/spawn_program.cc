#include "base/spawn_program.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/str.h"

namespace glint {
namespace {

// The words as pointers, null-terminated, for exec().
std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> all;
  for (const std::string& word : words) all.push_back(const_cast<char*>(word.c_str()));
  all.push_back(nullptr);
  return all;
}

}  // namespace

Result<pid_t> spawn_program(const std::vector<std::string>& command, const SpawnOptions& options) {
  std::vector<std::pair<const OwnedFd*, int>> given;  // and its number there
  int next = STDERR_FILENO + 1;
  for (const OwnedFd* fd : options.fds) given.emplace_back(fd, next++);
  for (const auto& [fd, first] : {std::pair(options.in_and_out, STDIN_FILENO),
                                  std::pair(options.out_and_error, STDOUT_FILENO)}) {
    if (!fd) continue;
    for (const int number : {first, first + 1}) given.emplace_back(fd, number);
  }
  // Under numbers that none of the process's descriptors has.
  std::vector<OwnedFd> above;
  for (const auto& [fd, number] : given) {
    above.emplace_back(::fcntl(fd->get(), F_DUPFD_CLOEXEC, 16));
    if (!above.back()) return unavailable(str("fcntl: ", std::strerror(errno)));
  }
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (options.prints_to_error)
    posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  for (std::size_t i = 0; i < given.size(); ++i) {
    posix_spawn_file_actions_adddup2(&files, above[i].get(), given[i].second);
  }
  posix_spawn_file_actions_addclosefrom_np(&files, next);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  sigset_t pipe = none;
  sigaddset(&pipe, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &pipe);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(
      &attributes,
      static_cast<short>(POSIX_SPAWN_SETSIGMASK | (options.own_group ? POSIX_SPAWN_SETPGROUP : 0) |
                         (options.dies_of_pipes ? POSIX_SPAWN_SETSIGDEF : 0)));
  const std::vector<char*> words = pointers_to(command);
  std::vector<char*> variables;
  if (options.environment) variables = pointers_to(*options.environment);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, words[0], &files, &attributes, words.data(),
                                  options.environment ? variables.data() : environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) return unavailable(str(command[0], ": ", std::strerror(error)));
  return pid;
}

}  // namespace glint
