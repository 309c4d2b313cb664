#include "runtime/rank_launch.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>

#include "base/ending_signals.h"
#include "base/json.h"
#include "base/machine.h"
#include "base/spawn_program.h"
#include "base/str.h"

namespace glint {
namespace {

constexpr int kHelloSeconds = 5;
constexpr int kLookMilliseconds = 100;
constexpr std::size_t kMostHello = 4096;  // bytes

// Why a rank that has said `theirs` is none of `self`'s from `first` on; empty: it is one.
std::string objection(const RankHello& self, int first, const RankHello& theirs) {
  const auto differ = [&](const char* what, const auto& own, const auto& other) {
    return str("rank ", theirs.rank, " has ", what, " ", other, ", and rank 0 ", own,
               "; start all ranks with the same program and command line");
  };
  if (theirs.build != self.build) return differ("glint", self.build, theirs.build);
  if (theirs.size != self.size) return differ("a group of", self.size, theirs.size);
  if (theirs.rank < first || theirs.rank >= self.size)
    return str("there is no rank ", theirs.rank, " of ", self.size, " to come");
  return {};
}

// Whether the other end has not hung up meanwhile: a rank may have waited in vain, and come again.
bool is_there(const RankStream& stream) {
  pollfd end = {.fd = stream.fd(), .events = POLLRDHUP, .revents = 0};
  return ::poll(&end, 1, 0) == 0;
}

// Until the rank's process or its leader's connection has ended; the process's exit code, -1 where
// it was ended by a signal.
int await_rank(pid_t pid, const RankStream& stream) {
  pollfd leader = {.fd = stream.fd(), .events = POLLRDHUP, .revents = 0};
  int status = 0;
  for (int looks = 0; ::waitpid(pid, &status, WNOHANG) == 0;) {
    if (::poll(&leader, 1, kLookMilliseconds) <= 0) continue;
    // It may be about to say why it ends.
    if (++looks > 10) ::kill(pid, SIGKILL);
    ::poll(nullptr, 0, kLookMilliseconds);
  }
  ::shutdown(stream.fd(), SHUT_RDWR);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

std::string this_machine() {
  std::string all = boot_id();
  for (const char* space : {"net", "pid"}) {
    std::error_code error;
    all += std::filesystem::read_symlink(str("/proc/self/ns/", space), error).string();
  }
  return all;
}

std::string write_hello(const RankHello& hello) {
  return dump_json(Json::Object{{"build", hello.build},
                                {"launch", hello.launch},
                                {"machine", hello.machine},
                                {"rank", hello.rank},
                                {"size", hello.size}});
}

Result<RankHello> read_hello(std::string_view text) {
  GLINT_TRY(const Json said, parse_json(text));
  RankHello hello;
  for (const auto& [name, to] :
       {std::pair{"build", &hello.build}, {"launch", &hello.launch}, {"machine", &hello.machine}}) {
    const Json* const value = said.find(name);
    if (!value || !value->is_string()) return invalid(str("a rank does not say its ", name));
    *to = value->as_string();
  }
  for (const auto& [name, to] : {std::pair{"rank", &hello.rank}, {"size", &hello.size}}) {
    const Json* const value = said.find(name);
    if (!value || !value->is_int() || value->as_int() < 0 || value->as_int() > 1 << 20)
      return invalid(str("a rank does not say its ", name));
    *to = static_cast<int>(value->as_int());
  }
  return hello;
}

Result<std::unique_ptr<RankGate>> RankGate::open(int port, RankHello self, int first) {
  GLINT_TRY(OwnedFd listener, listen_tcp(port).in("where ranks meet"));
  return std::unique_ptr<RankGate>(new RankGate(std::move(listener), std::move(self), first));
}

Result<std::vector<RankGate::Newcomer>> RankGate::admit(Deadline deadline) {
  std::vector<Newcomer> all(static_cast<std::size_t>(self_.size - first_));
  const auto missing = [&] {
    return std::find_if(all.begin(), all.end(),
                        [](const Newcomer& one) { return one.stream.fd() < 0; });
  };
  while (missing() != all.end()) {
    Result<OwnedFd> socket = accept_tcp(listener_, deadline);
    if (!socket.ok()) {
      return unavailable(str("rank ", missing() - all.begin() + first_, " of ", self_.size,
                             " has not come to port ", port_of(listener_),
                             " in time; does it run, and can it reach this machine?"));
    }
    RankStream stream(std::move(socket).value());
    stream.set_receive_seconds(kHelloSeconds);
    const Result<std::string> text = stream.receive(kMostHello);
    if (!text.ok() || !is_there(stream)) continue;
    const Result<RankHello> hello = read_hello(text.value());
    if (!hello.ok() || hello.value().launch != self_.launch) continue;
    const std::string why = objection(self_, first_, hello.value());
    if (!stream.send(dump_json(Json::Object{{"error", why}})).ok()) continue;
    if (!why.empty()) return invalid(why);
    stream.set_receive_seconds(0);
    // The later of two of the same rank is the one that lives.
    const auto place = static_cast<std::size_t>(hello.value().rank - first_);
    all[place] = {.stream = std::move(stream), .hello = hello.value()};
  }
  return all;
}

bool RankGate::share_machine(const std::vector<Newcomer>& all) const {
  return std::all_of(all.begin(), all.end(),
                     [&](const Newcomer& one) { return one.hello.machine == self_.machine; });
}

Result<RankStream> come_to_leader(const AgentOptions& options, bool again) {
  const std::string name = str("rank ", options.self.rank);
  for (;; again = true) {
    const Deadline deadline = seconds_from_now(again ? kReturnSeconds : kMeetSeconds);
    GLINT_TRY(
        OwnedFd connected,
        connect_tcp(options.leader, options.port, deadline, !again).in(name + " finds no rank 0"));
    RankStream stream(std::move(connected));
    stream.set_receive_seconds(kMeetSeconds);
    if (!stream.send(write_hello(options.self)).ok()) continue;
    const Result<std::string> answer = stream.receive(kMostHello);
    if (!answer.ok()) continue;  // the leader has ended, or lost another rank
    GLINT_TRY(const Json said, parse_json(answer.value()).in(name));
    if (const Json* const why = said.find("error"); why && !why->as_string().empty())
      return invalid(why->as_string());
    stream.set_receive_seconds(0);
    return stream;
  }
}

Status run_rank_agent(const AgentOptions& options) {
  const std::string name = str("rank ", options.self.rank);
  for (bool again = false;; again = true) {
    Result<RankStream> came = come_to_leader(options, again);
    if (!came.ok() && came.error().code == ErrorCode::kNotFound) return Ok{};
    GLINT_TRY(const RankStream stream, std::move(came));
    const OwnedFd others(::fcntl(stream.fd(), F_DUPFD_CLOEXEC, 0));
    // Signals that end a server are its leader's to hear.
    ignore_ending_signals();
    const OwnedFd* const given[] = {&others};
    GLINT_TRY(
        const pid_t pid,
        spawn_program(options.command, {.own_group = true, .prints_to_error = true, .fds = given})
            .in(name));
    if (await_rank(pid, stream) == 2) return invalid(name + " cannot be run; rank 0 says why");
  }
}

}  // namespace glint
