#include "runtime/rank_peers.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <random>
#include <thread>
#include <utility>

#include "base/cpu_nodes.h"
#include "base/spawn_program.h"
#include "base/str.h"
#include "base/tcp.h"
#include "runtime/ranks.h"

namespace glint {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kSilence{kRankSilenceSeconds};
constexpr std::chrono::seconds kAway{1};  // without a look, who watches was paused itself
constexpr int kMeetingSeconds = 30;       // ranks that run connect to each other in this time

Error no_process(const char* doing) {
  return unavailable(str("no process for a rank: ", doing, ": ", std::strerror(errno)));
}

Result<OwnedFd> file_of_memory(const MeshShape& shape) {
  OwnedFd file(::memfd_create("ranks", MFD_CLOEXEC));
  if (!file) return no_process("memfd_create");
  if (::ftruncate(file.get(), static_cast<off_t>(RankMemory::bytes_for(shape))) != 0) {
    return no_process("ftruncate");
  }
  return file;
}

// Numbers of generations over sockets, so that connections of one are not taken for another's.
std::uint64_t new_meeting() {
  std::random_device random;
  return (std::uint64_t{random()} << 32) | random();
}

}  // namespace

Json outcome_message(const Status& outcome) {
  if (outcome.ok()) return Json::Object{};
  return Json::Object{{"error", outcome.error().message},
                      {"code", static_cast<int>(outcome.error().code)}};
}

Status outcome_in(const Json& message) {
  const Json* const error = message.find("error");
  if (!error) return Ok{};
  return Error{static_cast<ErrorCode>(message.find("code")->as_int()), error->as_string()};
}

Result<Json> receive_message(RankStream& stream) {
  GLINT_TRY(const std::string text, stream.receive());
  return parse_json(text);
}

int Faults::add(Clock::time_point now) {
  times_.push_back(now);
  while (now - times_.front() > std::chrono::minutes(10)) times_.pop_front();
  return static_cast<int>(times_.size());
}

Result<RankPeer> spawn_rank(const std::vector<std::string>& command, const OwnedFd& memory,
                            bool prints) {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    return no_process("socketpair");
  }
  RankPeer peer = {.stream = RankStream(OwnedFd(fds[0]))};
  const OwnedFd others(fds[1]);
  std::vector<const OwnedFd*> given = {&others};  // kRankStreamFd
  if (memory) given.push_back(&memory);           // kRankMemoryFd
  Result<pid_t> pid = Error{};
  // It inherits the CPUs of the thread that starts it, which may be of another rank's memory.
  std::thread([&] {
    keep_to_cpus(cpus_at_start());
    pid = spawn_program(command, {.own_group = true, .prints_to_error = !prints, .fds = given});
  }).join();
  GLINT_TRY(peer.pid, std::move(pid).in("no process for a rank"));
  return peer;
}

void kill_rank(const RankPeer& peer) {
  if (peer.pid > 0) ::kill(peer.pid, SIGKILL);
  ::shutdown(peer.stream.fd(), SHUT_RDWR);
}

void await_end(const RankPeer& peer) {
  while (peer.pid > 0 && ::waitpid(peer.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::string watch_ranks(std::span<RankPeer* const> peers, int first,
                        const std::function<Heard(std::size_t)>& hear,
                        const std::function<bool()>& goes_on) {
  std::vector<Clock::time_point> heard(peers.size(), Clock::now());
  std::vector<pollfd> streams;
  for (const RankPeer* const peer : peers) {
    streams.push_back({.fd = peer->stream.fd(), .events = POLLIN, .revents = 0});
  }
  auto looked = Clock::now();
  for (std::size_t open = peers.size(); open > 0 && goes_on();) {
    if (::poll(streams.data(), streams.size(), kRankBeatMilliseconds) < 0 && errno != EINTR) {
      return str("ranks cannot be watched: ", std::strerror(errno));
    }
    const auto now = Clock::now();
    // Where a machine or a container was paused, all may have been.
    if (const auto away = now - std::exchange(looked, now); away > kAway) {
      for (Clock::time_point& one : heard) one += away;
    }
    for (std::size_t i = 0; i < peers.size(); ++i) {
      if (streams[i].fd < 0) continue;
      const pid_t pid = peers[i]->pid;
      const std::string name = str("rank ", first + static_cast<int>(i),
                                   pid > 0 ? str(" (process ", pid, ")") : std::string());
      if (streams[i].revents != 0) {
        const Heard said = hear(i);
        if (said == Heard::kNothing) return name + " has ended";
        heard[i] = Clock::now();
        if (said == Heard::kLast) {
          streams[i].fd = -1;
          --open;
        }
      } else if (now - heard[i] > kSilence) {
        return name + " shows no life";
      }
    }
  }
  return {};
}

Result<std::unique_ptr<LeaderGroups>> LeaderGroups::make(const MeshShape& shape, bool share_memory,
                                                         std::function<void(int)> on_lost) {
  std::unique_ptr<LeaderGroups> groups(new LeaderGroups());
  if (!share_memory) {
    groups->sockets_.emplace(shape, 0, groups->counters_, on_lost);
    GLINT_TRY(groups->listener_, listen_tcp(0));
    return groups;
  }
  groups->shape_ = shape;
  GLINT_TRY(groups->memory_file_, file_of_memory(shape));
  GLINT_TRY(groups->memory_, RankMemory::map(shape, groups->memory_file_.get()));
  return groups;
}

std::string LeaderGroups::memory_path(bool spawned) const {
  if (!memory_) return {};
  return spawned ? str("/proc/self/fd/", kRankMemoryFd)
                 : str("/proc/", ::getpid(), "/fd/", memory_file_.get());
}

Status LeaderGroups::connect(std::span<RankPeer* const> peers,
                             const std::function<Result<int>(std::size_t)>& port_of_rank) {
  if (!sockets_) return Ok{};
  std::vector<RankAddress> ranks = {{.port = port_of(listener_)}};
  // An empty host is the leader's, which each reaches by another address.
  Json::Array told = {Json::Object{{"host", ""}, {"port", ranks[0].port}}};
  for (std::size_t i = 0; i < peers.size(); ++i) {
    GLINT_TRY(const int port, port_of_rank(i));
    const bool is_here = peers[i]->pid > 0;
    ranks.push_back({.host = is_here ? "" : peer_address(peers[i]->stream.fd()), .port = port});
    told.push_back(Json::Object{{"host", ranks.back().host}, {"port", port}});
  }
  const std::uint64_t meeting = new_meeting();
  const Json place = Json::Object{{"ranks", std::move(told)}, {"meeting", std::to_string(meeting)}};
  for (RankPeer* peer : peers) GLINT_TRY_STATUS(peer->stream.send(dump_json(place)));
  return sockets_->connect(listener_, ranks, meeting, seconds_from_now(kMeetingSeconds));
}

RankMemory::Comms& LeaderGroups::comms() {
  if (!comms_) comms_.emplace(*memory_, 0);
  return *comms_;
}

Mesh LeaderGroups::mesh() { return memory_ ? comms().mesh() : sockets_->mesh(); }

Comm& LeaderGroups::all() { return memory_ ? comms().all() : sockets_->all(); }

Json LeaderGroups::traffic(int rank, const Json& moved) const {
  if (memory_) return memory_->traffic(rank);
  if (rank == 0) return traffic_of(counters_);
  return moved.is_object() ? moved : no_traffic();
}

void LeaderGroups::end() const {
  if (memory_) memory_->end();
  if (sockets_) sockets_->end();
  ::shutdown(listener_.get(), SHUT_RDWR);
}

Status LeaderGroups::begin_again() {
  if (!memory_) {
    GLINT_TRY(listener_, listen_tcp(0));
    return Ok{};
  }
  GLINT_TRY(memory_file_, file_of_memory(shape_));
  return memory_->begin_again(memory_file_.get());
}

Status LeaderConnection::tell(const Json& what) {
  const std::lock_guard lock(mutex_);
  return peer_.stream.send(dump_json(what));
}

std::string LeaderConnection::address() const { return peer_address(peer_.stream.fd()); }

void LeaderConnection::show_life(bool or_speaks) {
  const auto events = static_cast<short>(or_speaks ? POLLRDHUP | POLLIN : POLLRDHUP);
  pollfd stream = {.fd = peer_.stream.fd(), .events = events, .revents = 0};
  while (tell(Json::Object{{kBeat, traffic_of(counters_)}}).ok() &&
         ::poll(&stream, 1, kRankBeatMilliseconds) == 0) {
  }
}

std::string LeaderConnection::watch(const std::function<Heard()>& hear) {
  RankPeer* const alone[] = {&peer_};
  return watch_ranks(
      alone, 0, [&](std::size_t) { return hear(); }, [] { return true; });
}

Result<RankMembership> RankMembership::join(LeaderConnection& leader, const std::string& path,
                                            const MeshShape& shape, int rank,
                                            std::function<void(int)> on_lost) {
  RankMembership member;
  member.shape_ = shape;
  GLINT_TRY_STATUS(path.empty() ? member.join_sockets(leader, rank, std::move(on_lost))
                                : member.join_memory(path, rank));
  return member;
}

Status RankMembership::join_memory(const std::string& path, int rank) {
  const OwnedFd memory(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!memory) {
    return unavailable(str("cannot open the ranks' memory ", path, ": ", std::strerror(errno)));
  }
  GLINT_TRY(const RankMemory groups, RankMemory::map(shape_, memory.get()));
  shared_.emplace(groups, rank);
  return Ok{};
}

Status RankMembership::join_sockets(LeaderConnection& leader, int rank,
                                    std::function<void(int)> on_lost) {
  GLINT_TRY(const OwnedFd listener, listen_tcp(0));
  GLINT_TRY_STATUS(leader.tell(Json::Object{{"port", port_of(listener)}}));
  GLINT_TRY(const Json said, leader.hear_message());
  std::vector<RankAddress> ranks;
  for (const Json& address : said.find("ranks")->as_array()) {
    ranks.push_back(
        {address.find("host")->as_string(), static_cast<int>(address.find("port")->as_int())});
  }
  for (RankAddress& one : ranks) {
    if (one.host.empty()) one.host = leader.address();
  }
  std::uint64_t meeting = 0;
  const std::string& digits = said.find("meeting")->as_string();
  std::from_chars(digits.data(), digits.data() + digits.size(), meeting);
  sockets_.emplace(shape_, rank, leader.counters(), on_lost);
  return sockets_->connect(listener, ranks, meeting, seconds_from_now(kMeetingSeconds));
}

}  // namespace glint
