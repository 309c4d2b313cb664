#include "runtime/rank_launch.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <mutex>
#include <thread>
#include <utility>

#include "base/ending_signals.h"
#include "base/json.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/spawn_program.h"
#include "base/str.h"
#include "base/undo.h"

namespace glint {
namespace {

constexpr int kHelloSeconds = 5;
constexpr int kRestSeconds = 1;   // of a hello that has begun; a rank comes again
constexpr int kTellSeconds = 10;  // then a rank that waits says for whom
constexpr int kLookMilliseconds = 100;
constexpr std::size_t kMostHello = 4096;  // bytes
// One after another, before nobody is there to be met: a proxy may stand before a leader that
// starts.
constexpr int kMostHangUps = kMeetSeconds * 1000 / kLookMilliseconds;

// Why a rank that has said `theirs` is none of `self`'s from `first` on; empty: it is one.
std::string objection(const RankHello& self, int first, const RankHello& theirs) {
  const auto differ = [&](const char* what, const auto& own, const auto& other) {
    return str("rank ", theirs.rank, " has ", what, " ", other, ", and rank 0 ", own,
               "; start all ranks with the same program and command line, and as many --threads");
  };
  if (theirs.launch != self.launch) return differ("the launch", self.launch, theirs.launch);
  if (theirs.build != self.build) return differ("glint", self.build, theirs.build);
  if (theirs.size != self.size) return differ("a group of", self.size, theirs.size);
  if (theirs.rank < first || theirs.rank >= self.size)
    return str("there is no rank ", theirs.rank, " of ", self.size, " to come");
  for (const auto& [option, value] : theirs.asked) {
    const auto own = self.asked.find(option);
    if (own == self.asked.end()) return differ(option.c_str(), "none", value);
    if (own->second != value) return differ(option.c_str(), own->second, value);
  }
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
  Json::Object asked;
  for (const auto& [option, value] : hello.asked) asked.emplace_back(option, value);
  return dump_json(Json::Object{{"asked", std::move(asked)},
                                {"build", hello.build},
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
  const Json* const asked = said.find("asked");
  if (!asked || !asked->is_object()) return invalid("a rank does not say what it asks for");
  for (const auto& [option, value] : asked->as_object()) {
    if (!value.is_string()) return invalid(str("a rank does not say its ", option));
    hello.asked[option] = value.as_string();
  }
  return hello;
}

Result<std::unique_ptr<RankGate>> RankGate::open(int port, RankHello self, int first) {
  Result<OwnedFd> listener = listen_tcp(port);
  if (!listener.ok()) {
    return unavailable(str("where ranks meet: ", listener.error().message,
                           "; give all ranks another port, by --master-port or MASTER_PORT"));
  }
  return std::unique_ptr<RankGate>(
      new RankGate(std::move(listener).value(), std::move(self), first));
}

Result<std::vector<RankGate::Newcomer>> RankGate::admit(Deadline deadline) {
  std::vector<Newcomer> all(static_cast<std::size_t>(self_.size - first_));
  const auto missing = [&] {
    return std::find_if(all.begin(), all.end(),
                        [](const Newcomer& one) { return one.stream.fd() < 0; });
  };
  GLINT_LOG(kInfo, str("rank 0 waits at port ", port_of(listener_), " for the ranks from ", first_,
                       " to ", self_.size - 1));
  SpeakingTcp comers(listener_, kRankFrameBytes, std::chrono::seconds(kHelloSeconds));
  for (bool came_twice = false; missing() != all.end();) {
    const std::string late = str("rank ", missing() - all.begin() + first_, " of ", self_.size,
                                 " has not come to port ", port_of(listener_));
    if (std::chrono::steady_clock::now() >= deadline)
      return unavailable(late + " in time; does it run, and can it reach this machine?");
    Result<OwnedFd> socket = comers.accept(std::min(deadline, seconds_from_now(kTellSeconds)));
    if (!socket.ok()) {
      log(LogLevel::kWarning, late + " yet");
      continue;
    }
    RankStream stream(std::move(socket).value());
    const Result<std::string> text =
        stream.receive(kMostHello, std::min(deadline, seconds_from_now(kRestSeconds)));
    if (!text.ok() && text.error().code == ErrorCode::kUnsupported) {
      (void)stream.send({});  // it hears the version
      if (!have_met_) return text.error();
      log(LogLevel::kWarning, text.error().message);
    }
    if (!text.ok() || !is_there(stream)) continue;
    const Result<RankHello> hello = read_hello(text.value());
    if (!hello.ok()) continue;
    const std::string why = objection(self_, first_, hello.value());
    Newcomer* const place =
        why.empty() ? &all[static_cast<std::size_t>(hello.value().rank - first_)] : nullptr;
    if (place && place->stream.fd() >= 0 && is_there(place->stream)) {
      if (!std::exchange(came_twice, true)) {
        log(LogLevel::kWarning, str("rank ", hello.value().rank,
                                    " has come twice; give each process, or --nnodes machine, a "
                                    "rank of its own"));
      }
      continue;  // it tries again, and may find the place free
    }
    if (!stream.send(dump_json(Json::Object{{"error", why}})).ok()) continue;
    if (hello.value().launch != self_.launch) {
      log(LogLevel::kWarning, why);
      continue;
    }
    if (!why.empty()) return invalid(why);
    *place = {.stream = std::move(stream), .hello = hello.value()};
  }
  have_met_ = true;
  return all;
}

bool RankGate::share_machine(const std::vector<Newcomer>& all) const {
  return std::all_of(all.begin(), all.end(),
                     [&](const Newcomer& one) { return one.hello.machine == self_.machine; });
}

Result<RankStream> come_to_leader(const AgentOptions& options, bool again) {
  const std::string name = str("rank ", options.self.rank);
  const std::string leader = str(options.leader, ":", options.port);
  for (int hang_ups = 0;; again = true) {
    const Deadline deadline = seconds_from_now(again ? kReturnSeconds : kMeetSeconds);
    const auto connect = [&](Deadline end) {
      return connect_tcp(options.leader, options.port, end, !again).in(name + " finds no rank 0");
    };
    Result<OwnedFd> connected = connect(std::min(deadline, seconds_from_now(kTellSeconds)));
    if (!connected.ok() && connected.error().code == ErrorCode::kUnavailable) {
      log(LogLevel::kWarning, connected.error().message + "; it looks on");
      connected = connect(deadline);
    }
    if (!connected.ok()) return connected.error();
    RankStream stream(std::move(connected).value());
    (void)stream.send(write_hello(options.self));  // whoever has hung up does not answer
    const Result<std::string> answer = stream.receive(kMostHello, seconds_from_now(kMeetSeconds));
    if (answer.ok()) {
      GLINT_TRY(const Json said, parse_json(answer.value()).in(name));
      if (const Json* const why = said.find("error"); why && !why->as_string().empty())
        return invalid(why->as_string());
      return stream;
    }
    if (answer.error().code != ErrorCode::kUnavailable)
      return invalid(str(name, " finds no rank 0 at ", leader, ": ", answer.error().message));
    // A leader that serves lets it wait for its turn.
    hang_ups = is_there(stream) ? 0 : hang_ups + 1;
    if (hang_ups == kMostHangUps) {
      return unavailable(str(name, " finds no rank 0 at ", leader,
                             ": whoever listens there hangs up; give all ranks the address and "
                             "the port of rank 0"));
    }
    ::poll(nullptr, 0, kLookMilliseconds);
  }
}

namespace {

// The signals that end a server, of a process whose threads run ranks: ignored while one runs.
class LeadersSignals {
 public:
  LeadersSignals() { ::signal(SIGPIPE, SIG_IGN); }  // a log that nobody reads ends no rank
  void begin_rank() {
    const std::lock_guard lock(mutex_);
    if (num_running_++ > 0) return;
    struct sigaction ignore = {};
    ignore.sa_handler = SIG_IGN;
    for (std::size_t i = 0; i < before_.size(); ++i)
      ::sigaction(kEndingSignals[i], &ignore, &before_[i]);
  }
  void end_rank() {
    const std::lock_guard lock(mutex_);
    if (--num_running_ > 0) return;
    for (std::size_t i = 0; i < before_.size(); ++i)
      ::sigaction(kEndingSignals[i], &before_[i], nullptr);
  }

 private:
  std::mutex mutex_;
  int num_running_ = 0;
  std::array<struct sigaction, std::size(kEndingSignals)> before_ = {};
};

Status run_rank_agent(const AgentOptions& options, LeadersSignals& signals) {
  const std::string name = str("rank ", options.self.rank);
  for (bool again = false;; again = true) {
    if (again) {
      GLINT_LOG(kInfo,
                str(name, " looks for rank 0 at ", options.leader, ":", options.port, " again"));
    }
    Result<RankStream> came = come_to_leader(options, again);
    if (!came.ok() && came.error().code == ErrorCode::kNotFound) {
      GLINT_LOG(kInfo, name + " ends: rank 0 has");
      return Ok{};
    }
    GLINT_TRY(const RankStream stream, std::move(came));
    GLINT_LOG(kInfo, name + " serves until rank 0 ends; SIGTERM and Ctrl-C are for that one");
    const OwnedFd others(::fcntl(stream.fd(), F_DUPFD_CLOEXEC, 0));
    signals.begin_rank();
    const Undo end_rank([&] { signals.end_rank(); });
    const OwnedFd* const given[] = {&others};
    GLINT_TRY(
        const pid_t pid,
        spawn_program(options.command, {.own_group = true, .prints_to_error = true, .fds = given})
            .in(name));
    if (await_rank(pid, stream) == 2) return invalid(name + " cannot be run; rank 0 says why");
  }
}

}  // namespace

Status run_rank_agents(const std::vector<AgentOptions>& ranks) {
  LeadersSignals signals;
  std::vector<Status> ends(ranks.size(), Ok{});
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < ranks.size(); ++i)
    others.emplace_back([&, i] { ends[i] = run_rank_agent(ranks[i], signals); });
  ends[0] = run_rank_agent(ranks[0], signals);
  for (std::thread& other : others) other.join();
  for (Status& end : ends) GLINT_TRY_STATUS(std::move(end));
  return Ok{};
}

}  // namespace glint
