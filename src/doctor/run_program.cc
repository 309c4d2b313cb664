#include "doctor/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/owned_fd.h"
#include "base/seconds.h"
#include "base/spawn_program.h"
#include "base/str.h"

namespace glint {
namespace {

constexpr std::size_t kMaxOutput = std::size_t{1} << 20;

const std::vector<std::string> kEnvironment = {
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"};

enum class End { kClosed, kTimeout, kTooMuch };

// Reads `fd` until it is closed.
End read_all(int fd, double seconds, std::string& out) {
  const auto start = std::chrono::steady_clock::now();
  char piece[4096];
  for (;;) {
    const double left = seconds - seconds_since(start);
    if (left <= 0) return End::kTimeout;
    pollfd wait = {.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&wait, 1, static_cast<int>(std::min(left, 3600.0) * 1000) + 1);
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const ssize_t n = ::read(fd, piece, sizeof piece);
    if (n <= 0) return End::kClosed;
    out.append(piece, static_cast<std::size_t>(n));
    if (out.size() > kMaxOutput) return End::kTooMuch;
  }
}

// Whether the program ends in that time. One that waits inside a broken driver does not, not even
// when it is killed: so nobody may wait for it without end.
bool wait_for(pid_t pid, double seconds, int& status) {
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    const pid_t done = ::waitpid(pid, &status, WNOHANG);
    if (done == pid || (done < 0 && errno != EINTR)) return true;
    if (seconds_since(start) > seconds) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

std::string first_line(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \r\n\t");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace

Result<std::string> run_program(const std::vector<std::string>& words, double seconds) {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0)
    return exhausted(str("cannot make a pipe: ", std::strerror(errno)));
  OwnedFd from(pipe[0]), to(pipe[1]);
  GLINT_TRY(const pid_t pid,
            spawn_program(words,
                          {.own_group = true, .out_and_error = &to, .environment = &kEnvironment}));
  to = OwnedFd();
  std::string out;
  const End end = read_all(from.get(), seconds, out);
  from = OwnedFd();
  int status = 0;
  const bool ended = end == End::kClosed && wait_for(pid, seconds, status);
  if (!ended) {
    ::kill(-pid, SIGKILL);
    wait_for(pid, 1, status);
  }
  if (end == End::kTimeout || (end == End::kClosed && !ended))
    return unavailable(str(words[0], " did not answer within ", seconds, " seconds"));
  if (end == End::kTooMuch) return exhausted(str(words[0], " prints without end"));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    const std::string said = first_line(out);
    return unavailable(str(words[0], " failed", said.empty() ? "" : ": " + said.substr(0, 300)));
  }
  return out;
}

}  // namespace glint
