#include "runtime/rank_processes.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "base/log.h"
#include "base/spawn_program.h"
#include "base/str.h"
#include "runtime/rank_process.h"
#include "runtime/ranks.h"

namespace glint {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kSilence{5};  // then a rank is lost
constexpr std::size_t kMostFaults = 3;
constexpr std::chrono::minutes kFaultWindow{10};

Error unavailable(const std::string& doing) {
  return {ErrorCode::kUnavailable,
          str("no process for a rank: ", doing, ": ", std::strerror(errno))};
}

// Numbers of groups over sockets, so that connections of one are not taken for another's.
std::uint64_t new_group() {
  std::random_device random;
  return (std::uint64_t{random()} << 32) | random();
}

}  // namespace

RankProcesses::RankProcesses(RankProcessOptions options) : options_(std::move(options)) {}

Result<std::unique_ptr<RankProcesses>> RankProcesses::start(RankProcessOptions options) {
  std::unique_ptr<RankProcesses> ranks(new RankProcesses(std::move(options)));
  GLINT_TRY_STATUS(ranks->bring());
  return ranks;
}

Status RankProcesses::make_groups(bool share_memory) {
  const MeshShape& shape = options_.model.shape;
  if (!share_memory) {
    if (!kind_of_all(shape)) {
      return invalid(str(glint::describe(shape),
                         ": ranks of several kinds talk through the memory of one machine, and "
                         "these are on several; start them on one, or take --tp, --dp or --pp "
                         "alone"));
    }
    sockets_ = std::make_unique<SocketComm>(0, shape.num_ranks(), [this](int peer) {
      lose(str("rank ", peer, " is not connected any more"));
    });
    counting_.emplace(*sockets_);
    return Ok{};
  }
  memory_file_ = OwnedFd(::memfd_create("ranks", MFD_CLOEXEC));
  if (!memory_file_) return unavailable("memfd_create");
  if (::ftruncate(memory_file_.get(), static_cast<off_t>(RankMemory::bytes_for(shape))) != 0) {
    return unavailable("ftruncate");
  }
  GLINT_TRY(memory_, RankMemory::map(shape, memory_file_.get()));
  comms_.emplace(*memory_, 0);
  return Ok{};
}

RankProcesses::~RankProcesses() { end(); }

Mesh RankProcesses::mesh() {
  return memory_ ? comms_->mesh() : mesh_of_all(options_.model.shape, *counting_);
}

// Followers that load, and who watches them.
Status RankProcesses::bring() {
  GLINT_TRY_STATUS(options_.gate ? admit() : spawn());
  ModelOptions model = options_.model;
  if (leader_) model.dir = leader_->options().dir;
  const std::string memory = sockets_        ? ""
                             : options_.gate ? str("/proc/", ::getpid(), "/fd/", memory_file_.get())
                                             : str("/proc/self/fd/", kRankMemoryFd);
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    const Json start =
        rank_start(model, static_cast<int>(i) + 1, options_.build, options_.backend, memory);
    GLINT_TRY_STATUS(processes_[i].stream.send(dump_json(start)));
    processes_[i].stream.set_receive_seconds(kSilence.count());  // of a message that has begun
  }
  watcher_ = std::thread([this] { watch(); });
  return sockets_ ? meet() : Ok{};
}

Status RankProcesses::spawn() {
  if (!has_groups()) GLINT_TRY_STATUS(make_groups(true));
  const std::lock_guard lock(mutex_);
  for (int rank = 1; rank < options_.model.shape.num_ranks(); ++rank) {
    int fds[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
      return unavailable("socketpair");
    }
    Process& process = processes_.emplace_back();
    process.stream = RankStream(OwnedFd(fds[0]));
    const OwnedFd others(fds[1]);
    const OwnedFd* const given[] = {&others, &memory_file_};  // kRankStreamFd, kRankMemoryFd
    // Ctrl-C is the leader's to hear.
    GLINT_TRY(process.pid, spawn_program(options_.command,
                                         {.own_group = true, .prints_to_error = true, .fds = given})
                               .in("no process for a rank"));
  }
  return Ok{};
}

// Those that a launcher has started. What they share is settled by the first.
Status RankProcesses::admit() {
  GLINT_TRY(std::vector<RankGate::Newcomer> all,
            options_.gate->admit(seconds_from_now(has_groups() ? kReturnSeconds : kMeetSeconds)));
  const std::string& here = options_.gate->self().machine;
  const bool one_machine = std::all_of(
      all.begin(), all.end(), [&](const RankGate::Newcomer& n) { return n.hello.machine == here; });
  if (!has_groups()) GLINT_TRY_STATUS(make_groups(one_machine));
  if (memory_ && !one_machine) {
    return Error{ErrorCode::kUnavailable,
                 "a rank has come back on another machine, and the others share memory; start the "
                 "server anew"};
  }
  const std::lock_guard lock(mutex_);
  for (RankGate::Newcomer& one : all) {
    processes_.emplace_back().stream = std::move(one.stream);
  }
  return Ok{};
}

// Connects ranks that do not share memory.
Status RankProcesses::meet() {
  GLINT_TRY(const OwnedFd listener, listen_tcp(0));
  RankMeeting meeting = {.ranks = {{.port = port_of(listener)}}, .group = new_group()};
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    GLINT_TRY(const Json said, take_answer(i));
    meeting.ranks.push_back({.host = peer_address(processes_[i].stream.fd()),
                             .port = static_cast<int>(said.find("port")->as_int())});
  }
  for (Process& process : processes_) {
    GLINT_TRY_STATUS(process.stream.send(dump_json(to_json(meeting))));
  }
  GLINT_TRY(std::vector<OwnedFd> peers, connect_ranks(listener, 0, meeting.ranks, meeting.group,
                                                      seconds_from_now(kRankMeetingSeconds)));
  sockets_->connect(std::move(peers));
  return Ok{};
}

// A follower's words, or the failure that it told.
Result<Json> RankProcesses::take_answer(std::size_t follower) {
  std::optional<Json> said = processes_[follower].answers->pop();
  if (!said) return state().ok() ? Error{ErrorCode::kUnavailable, "ranks end"} : state().error();
  if (const Json* error = said->find("error")) {
    return Error{static_cast<ErrorCode>(said->find("code")->as_int()),
                 str("rank ", follower + 1, ": ", error->as_string())};
  }
  return *std::move(said);
}

Status RankProcesses::await_loaded() {
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    GLINT_TRY(Json said, take_answer(i));
    if (said.find("checkpoint")->as_string() != leader_->fingerprint()) {
      return invalid(str("rank ", i + 1, " has read another checkpoint in ", leader_->options().dir,
                         " than the first rank; let the files be written before serving them"));
    }
    const std::lock_guard lock(mutex_);
    processes_[i].said = *said.find("about");
  }
  return Ok{};
}

Status RankProcesses::join(LoadedModel& leader) {
  leader_ = &leader;
  GLINT_TRY_STATUS(await_loaded());
  leader.set_followers(this);
  return Ok{};
}

void RankProcesses::start(RankPass pass) {
  if (is_lost_) return;
  const std::string bytes = write_pass(pass);
  for (Process& process : processes_) {
    if (const Status sent = process.stream.send(bytes); !sent.ok()) lose(sent.error().message);
  }
  if (is_answered(pass.kind)) unanswered_.push_back(pass.kind);
  if (pass.kind == RankPass::Kind::kReservePages) pages_ = pass;
  if (pass.kind == RankPass::Kind::kReserveSteps) steps_ = pass;
  if (pass.kind == RankPass::Kind::kRecordGraphs) graphs_ = pass;
}

Status RankProcesses::finish() {
  Status all = state();
  for (; !unanswered_.empty(); unanswered_.pop_back()) {
    for (std::size_t i = 0; i < processes_.size(); ++i) {
      const Result<Json> said = take_answer(i);
      if (!said.ok() && all.ok()) all = said.error();
      if (!said.ok()) continue;
      const std::lock_guard lock(mutex_);
      processes_[i].said.set("way", *said.value().find("way"));
    }
  }
  return all;
}

Status RankProcesses::state() const {
  if (!is_lost_) return Ok{};
  const std::lock_guard lock(mutex_);
  return Error{ErrorCode::kUnavailable, lost_};
}

void RankProcesses::lose(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (is_lost_ || ending_) return;
    lost_ = why;
    is_lost_ = true;
  }
  hang_up();
}

// Ends all that waits for the followers, and them.
void RankProcesses::hang_up() {
  if (memory_) memory_->end();
  if (sockets_) sockets_->end();
  for (const Process& process : processes_) {
    if (process.pid > 0) ::kill(process.pid, SIGKILL);
    ::shutdown(process.stream.fd(), SHUT_RDWR);
    process.answers->close();
  }
}

// Takes what a follower tells next; false where it tells nothing any more.
bool RankProcesses::hear(std::size_t follower) {
  Process& process = processes_[follower];
  const Result<std::string> text = process.stream.receive();
  if (!text.ok()) return false;
  Result<Json> said = parse_json(text.value());
  if (!said.ok() || !said.value().is_object()) return false;
  const Json* const moved = said.value().find(kBeat);
  if (!moved) return process.answers->push(std::move(said).value());
  const std::lock_guard lock(mutex_);
  process.moved = *moved;
  return true;
}

// Until the group is lost, or ends.
void RankProcesses::watch() {
  std::vector<Clock::time_point> heard(processes_.size(), Clock::now());
  std::vector<pollfd> streams;
  for (const Process& process : processes_) {
    streams.push_back({.fd = process.stream.fd(), .events = POLLIN, .revents = 0});
  }
  while (!ending_ && !is_lost_) {
    if (::poll(streams.data(), streams.size(), kRankBeatMilliseconds) < 0 && errno != EINTR) {
      return lose(str("ranks cannot be watched: ", std::strerror(errno)));
    }
    for (std::size_t i = 0; i < processes_.size(); ++i) {
      const pid_t pid = processes_[i].pid;
      const std::string name =
          str("rank ", i + 1, pid > 0 ? str(" (process ", pid, ")") : std::string());
      if (streams[i].revents != 0) {
        if (!hear(i)) return lose(name + " has ended");
        heard[i] = Clock::now();
      }
      if (Clock::now() - heard[i] > kSilence) return lose(name + " shows no life");
    }
  }
}

// Every process, and who watches them.
void RankProcesses::end() {
  ending_ = true;
  hang_up();
  if (watcher_.joinable()) watcher_.join();
  const std::lock_guard lock(mutex_);
  for (const Process& process : processes_) {
    while (process.pid > 0 && ::waitpid(process.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  processes_.clear();
  unanswered_.clear();
}

Status RankProcesses::restart(const std::function<Status()>& beside) {
  const std::string why = state().ok() ? "" : state().error().message;
  const auto now = Clock::now();
  faults_.push_back(now);
  while (now - faults_.front() > kFaultWindow) faults_.pop_front();
  if (faults_.size() >= kMostFaults) {
    options_.on_give_up(
        str("ranks were lost ", faults_.size(), " times in ten minutes; the last: ", why));
  }
  log(LogLevel::kError, why + "; all ranks start again");
  end();
  if (memory_) memory_->begin_again();
  ending_ = false;
  is_lost_ = false;
  Status status = bring_back(beside);
  if (!status.ok()) lose("ranks do not start again: " + status.error().message);
  return status;
}

// New processes, with what those before them had.
Status RankProcesses::bring_back(const std::function<Status()>& beside) {
  GLINT_TRY_STATUS(bring());
  GLINT_TRY_STATUS(await_loaded());
  for (const auto* pass : {&pages_, &steps_, &graphs_}) {
    if (*pass) start(**pass);
  }
  Status mine = beside();
  Status theirs = finish();
  return theirs.ok() ? mine : theirs;
}

Json RankProcesses::describe() const {
  Json::Array all = {describe_rank(*leader_)};
  all.front().set("pid", static_cast<std::int64_t>(::getpid()));
  const std::lock_guard lock(mutex_);
  for (const Process& process : processes_) {
    const bool loads = process.said.is_null();
    all.push_back(loads ? Json::Object{{"rank", std::ssize(all)}} : process.said);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (memory_) {
      all[i].set("collectives", memory_->traffic(static_cast<int>(i)));
      continue;
    }
    Json traffic = no_traffic();
    traffic.set(kind_of_all(options_.model.shape)->name,
                i == 0 ? glint::describe(counting_->uses()) : processes_[i - 1].moved);
    all[i].set("collectives", std::move(traffic));
  }
  return all;
}

}  // namespace glint
