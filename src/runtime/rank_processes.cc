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

#include "base/log.h"
#include "base/spawn_program.h"
#include "base/str.h"
#include "runtime/rank_process.h"
#include "runtime/ranks.h"

namespace glint {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBeatsMissed = 25;  // 5 seconds: then a rank is lost
constexpr std::size_t kMostFaults = 3;
constexpr std::chrono::minutes kFaultWindow{10};

Error unavailable(const std::string& doing) {
  return {ErrorCode::kUnavailable,
          str("no process for a rank: ", doing, ": ", std::strerror(errno))};
}

// A follower's words, or the failure that it told.
Result<Json> take_answer(RankStream& stream, int rank) {
  GLINT_TRY(const std::string text, stream.receive().in(str("rank ", rank)));
  GLINT_TRY(Json said, parse_json(text).in(str("rank ", rank)));
  if (const Json* error = said.find("error")) {
    return Error{static_cast<ErrorCode>(said.find("code")->as_int()),
                 str("rank ", rank, ": ", error->as_string())};
  }
  return said;
}

}  // namespace

RankProcesses::RankProcesses(RankProcessOptions options, SharedGroup group, OwnedFd memory)
    : options_(std::move(options)),
      group_(std::move(group)),
      memory_(std::move(memory)),
      comm_(make_shared_comm(group_, 0)),
      counting_(*comm_, &group_.counters(0)) {}

Result<std::unique_ptr<RankProcesses>> RankProcesses::start(RankProcessOptions options) {
  const int size = options.model.shape.tp;
  OwnedFd memory(::memfd_create("ranks", MFD_CLOEXEC));
  if (!memory) return unavailable("memfd_create");
  if (::ftruncate(memory.get(), static_cast<off_t>(SharedGroup::bytes_for(size))) != 0) {
    return unavailable("ftruncate");
  }
  GLINT_TRY(SharedGroup group, SharedGroup::map(size, memory.get()));
  std::unique_ptr<RankProcesses> ranks(
      new RankProcesses(std::move(options), std::move(group), std::move(memory)));
  GLINT_TRY_STATUS(ranks->spawn());
  return ranks;
}

RankProcesses::~RankProcesses() { end(); }

Mesh RankProcesses::mesh() { return {.tp = &counting_}; }

Status RankProcesses::spawn() {
  ModelOptions model = options_.model;
  if (leader_) model.dir = leader_->options().dir;
  const std::lock_guard lock(mutex_);
  for (int rank = 1; rank < options_.model.shape.tp; ++rank) {
    int fds[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
      return unavailable("socketpair");
    }
    Process& process = processes_.emplace_back();
    process.stream = RankStream(OwnedFd(fds[0]));
    const OwnedFd others(fds[1]);
    const OwnedFd* const given[] = {&others, &memory_};  // kRankStreamFd, kRankMemoryFd
    // Ctrl-C is the leader's to hear.
    GLINT_TRY(process.pid, spawn_program(options_.command,
                                         {.own_group = true, .prints_to_error = true, .fds = given})
                               .in("no process for a rank"));
    GLINT_TRY_STATUS(
        process.stream.send(dump_json(rank_start(model, rank, options_.build, options_.backend))));
  }
  watcher_ = std::thread([this] { watch(); });
  return Ok{};
}

Status RankProcesses::await_loaded() {
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    const int rank = static_cast<int>(i) + 1;
    GLINT_TRY(Json said, take_answer(processes_[i].stream, rank));
    if (said.find("checkpoint")->as_string() != leader_->fingerprint()) {
      return invalid(str("rank ", rank, " has read another checkpoint in ", leader_->options().dir,
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
  if (group_.ended()) return;
  const std::string bytes = write_pass(pass);
  for (Process& process : processes_) {
    if (const Status sent = process.stream.send(bytes); !sent.ok()) lose(sent.error().message);
  }
  if (is_answered(pass.kind)) unanswered_.push_back(pass.kind);
  if (pass.kind == RankPass::Kind::kReservePages) pages_ = pass;
  if (pass.kind == RankPass::Kind::kReserveSteps) steps_ = pass;
}

Status RankProcesses::finish() {
  Status all = state();
  for (; !unanswered_.empty(); unanswered_.pop_back()) {
    for (std::size_t i = 0; i < processes_.size(); ++i) {
      const Result<Json> said = take_answer(processes_[i].stream, static_cast<int>(i) + 1);
      if (!said.ok() && all.ok()) all = said.error();
    }
  }
  return all;
}

Status RankProcesses::state() const {
  if (!group_.ended()) return Ok{};
  const std::lock_guard lock(mutex_);
  return Error{ErrorCode::kUnavailable, lost_};
}

void RankProcesses::lose(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (!lost_.empty() || ending_) return;
    lost_ = why;
  }
  group_.end();
  for (const Process& process : processes_) ::kill(process.pid, SIGKILL);
}

// Until the group is lost, or ends.
void RankProcesses::watch() {
  struct Seen {
    std::uint32_t beat = 0;
    int missed = 0;
  };
  std::vector<Seen> seen(processes_.size());
  std::vector<pollfd> streams;
  for (const Process& process : processes_) {
    streams.push_back({.fd = process.stream.fd(), .events = POLLRDHUP, .revents = 0});
  }
  while (!ending_ && !group_.ended()) {
    if (::poll(streams.data(), streams.size(), kRankBeatMilliseconds) < 0 && errno != EINTR) {
      return lose(str("ranks cannot be watched: ", std::strerror(errno)));
    }
    for (std::size_t i = 0; i < processes_.size(); ++i) {
      const auto name = [&] { return str("rank ", i + 1, " (process ", processes_[i].pid, ")"); };
      if (streams[i].revents != 0) return lose(name() + " has ended");
      const std::uint32_t beat = group_.beat(static_cast<int>(i) + 1);
      seen[i] = beat == seen[i].beat ? Seen{beat, seen[i].missed + 1} : Seen{beat, 0};
      if (seen[i].missed > kBeatsMissed) return lose(name() + " shows no life");
    }
  }
}

// Every process, and who watches them.
void RankProcesses::end() {
  ending_ = true;
  for (const Process& process : processes_) {
    if (process.pid > 0) ::kill(process.pid, SIGKILL);
  }
  if (watcher_.joinable()) watcher_.join();
  const std::lock_guard lock(mutex_);
  for (const Process& process : processes_) {
    while (process.pid > 0 && ::waitpid(process.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  processes_.clear();
  unanswered_.clear();
}

Status RankProcesses::restart() {
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
  group_.begin_again();
  ending_ = false;
  {
    const std::lock_guard lock(mutex_);
    lost_.clear();
  }
  Status status = bring_back();
  if (!status.ok()) lose("ranks do not start again: " + status.error().message);
  return status;
}

// New processes, with what those before them had.
Status RankProcesses::bring_back() {
  GLINT_TRY_STATUS(spawn());
  GLINT_TRY_STATUS(await_loaded());
  if (pages_) start(*pages_);
  if (steps_) start(*steps_);
  return finish();
}

Json RankProcesses::describe() const {
  Json::Array all = {describe_rank(*leader_)};
  all.front().set("pid", static_cast<std::int64_t>(::getpid()));
  {
    const std::lock_guard lock(mutex_);
    for (const Process& process : processes_) all.push_back(process.said);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].set("collectives",
               Json::Object{{"tp", glint::describe(group_.counters(static_cast<int>(i)).uses())}});
  }
  return all;
}

}  // namespace glint
