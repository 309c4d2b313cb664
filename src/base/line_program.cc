#include "base/line_program.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "base/seconds.h"
#include "base/spawn_program.h"
#include "base/str.h"

namespace glint {
namespace {

constexpr std::size_t kMaxLine = std::size_t{64} << 20;
constexpr std::chrono::seconds kLastWords{3};  // of a program that is ended
constexpr double kLookSeconds = 0.1;           // between looks whether it is waited for

}  // namespace

LineProgram::LineProgram(std::string command, OwnedFd socket, pid_t pid)
    : command_(std::move(command)), socket_(std::move(socket)), pid_(pid) {}

LineProgram::LineProgram(LineProgram&& other) noexcept
    : command_(std::move(other.command_)),
      socket_(std::move(other.socket_)),
      pid_(std::exchange(other.pid_, 0)),
      read_(std::move(other.read_)),
      failed_(other.failed_) {}

LineProgram::~LineProgram() {
  if (pid_ == 0) return;
  ::shutdown(socket_.get(), SHUT_WR);
  ::kill(-pid_, SIGTERM);
  // One that hangs, which may be why nobody asks it any more, need not heed that, and the shell may
  // end before what it started. All hold the other end, until the last has ended.
  const auto last = std::chrono::steady_clock::now() + kLastWords;
  char rest[4096];
  while (std::chrono::steady_clock::now() < last) {
    const ssize_t bytes = ::recv(socket_.get(), rest, sizeof rest, MSG_DONTWAIT);
    if (bytes == 0 || (bytes < 0 && errno == ECONNRESET)) break;
    if (bytes < 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ::kill(-pid_, SIGKILL);  // a group that is there, as its leader has not been waited for
  ::waitpid(pid_, nullptr, 0);
}

Result<LineProgram> LineProgram::start(const std::string& command) {
  // A socket: to write to a program that has ended is an error there, not a signal.
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return unavailable(str("socketpair: ", std::strerror(errno)));
  }
  OwnedFd ours(ends[0]);
  const OwnedFd theirs(ends[1]);
  GLINT_TRY(const pid_t pid,
            spawn_program({"/bin/sh", "-c", command},
                          {.own_group = true, .dies_of_pipes = true, .in_and_out = &theirs}));
  return LineProgram(command, std::move(ours), pid);
}

Error LineProgram::fail(const std::string& why) {
  failed_ = true;
  return unavailable(str(quoted(command_), " ", why));
}

Status LineProgram::check_silence(int milliseconds) {
  if (failed_) return fail("has failed before");
  pollfd one = {.fd = socket_.get(), .events = POLLIN, .revents = 0};
  if (read_.empty() && ::poll(&one, 1, milliseconds) <= 0) return Ok{};
  char byte;
  const bool has_ended = read_.empty() && ::recv(socket_.get(), &byte, 1, MSG_PEEK) <= 0;
  return has_ended ? Status(Ok{}) : fail("has written more than a line for a line");
}

Status LineProgram::check_silence() {
  constexpr int kMoment = 100;  // milliseconds
  return check_silence(kMoment);
}

Result<std::string> LineProgram::ask(std::string_view line, double seconds,
                                     const std::function<bool()>& goes_on) {
  GLINT_TRY_STATUS(check_silence(0));
  const auto start = std::chrono::steady_clock::now();
  std::string question = std::string(line) + "\n";
  std::string_view left = question;
  while (true) {
    if (const std::size_t end = read_.find('\n'); left.empty() && end != read_.npos) {
      std::string answer = read_.substr(0, end);
      read_.erase(0, end + 1);
      return answer;
    }
    const double remaining = seconds - seconds_since(start);
    if (remaining <= 0) return fail(formatted("has not answered in %.3g s", seconds));
    if (goes_on && !goes_on()) return fail("is not waited for any more");
    const auto events = static_cast<short>(left.empty() ? POLLIN : POLLIN | POLLOUT);
    pollfd one = {.fd = socket_.get(), .events = events, .revents = 0};
    const double wait = std::min(remaining, goes_on ? kLookSeconds : 1e6);
    const int ready = ::poll(&one, 1, static_cast<int>(std::ceil(wait * 1000)));
    if (ready < 0 && errno != EINTR) return fail(str("cannot be read: ", std::strerror(errno)));
    if (ready <= 0) continue;
    if (one.revents & (POLLIN | POLLHUP | POLLERR)) {
      char bytes[4096];
      const ssize_t count = ::recv(socket_.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
      if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) {
        return fail("ended instead of answering");
      }
      if (count > 0) read_.append(bytes, static_cast<std::size_t>(count));
      if (read_.size() > kMaxLine) return fail("answers with a line that does not end");
    }
    if (one.revents & POLLOUT) {
      const ssize_t count =
          ::send(socket_.get(), left.data(), left.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count < 0 && errno != EAGAIN && errno != EINTR) {
        return fail("ended instead of answering");
      }
      if (count > 0) left.remove_prefix(static_cast<std::size_t>(count));
    }
  }
}

}  // namespace glint
