#include "base/spawn_program.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/str.h"

namespace glint {
namespace {

constexpr int kFirst = STDERR_FILENO + 1;

}  // namespace

Result<pid_t> spawn_program(const std::vector<std::string>& command, const SpawnOptions& options) {
  // Under numbers that none of the process's descriptors has.
  std::vector<OwnedFd> above;
  std::vector<const OwnedFd*> fds(options.fds.begin(), options.fds.end());
  if (options.in_and_out) fds.push_back(options.in_and_out);
  for (const OwnedFd* fd : fds) {
    above.emplace_back(::fcntl(fd->get(), F_DUPFD_CLOEXEC, 16));
    if (!above.back()) return unavailable(str("fcntl: ", std::strerror(errno)));
  }
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (options.prints_to_error)
    posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  if (options.in_and_out) {
    for (const int number : {STDIN_FILENO, STDOUT_FILENO}) {
      posix_spawn_file_actions_adddup2(&files, above.back().get(), number);
    }
  }
  int next = kFirst;
  for (std::size_t i = 0; i < options.fds.size(); ++i) {
    posix_spawn_file_actions_adddup2(&files, above[i].get(), next++);
  }
  posix_spawn_file_actions_addclosefrom_np(&files, next);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(
      &attributes,
      static_cast<short>(POSIX_SPAWN_SETSIGMASK | (options.own_group ? POSIX_SPAWN_SETPGROUP : 0)));
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, words[0], &files, &attributes, words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) return unavailable(str(command[0], ": ", std::strerror(error)));
  return pid;
}

}  // namespace glint
