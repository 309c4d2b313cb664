#include "runtime/rank_processes.h"

#include <unistd.h>

#include <utility>

#include "base/log.h"
#include "base/str.h"
#include "runtime/rank_process.h"
#include "runtime/ranks.h"

namespace glint {
namespace {

constexpr int kMostFaults = 3;

Result<Json> good_answer(std::size_t follower, Json said) {
  GLINT_TRY_STATUS(outcome_in(said).in(str("rank ", follower + 1)));
  return said;
}

}  // namespace

RankProcesses::RankProcesses(RankProcessOptions options) : options_(std::move(options)) {}

Result<std::unique_ptr<RankProcesses>> RankProcesses::start(RankProcessOptions options) {
  std::unique_ptr<RankProcesses> ranks(new RankProcesses(std::move(options)));
  GLINT_TRY_STATUS(ranks->bring());
  return ranks;
}

Status RankProcesses::make_groups(bool share_memory) {
  GLINT_TRY(groups_, LeaderGroups::make(options_.model.shape, share_memory, [this](int peer) {
              lose(str("rank ", peer, " is not connected any more"));
            }));
  return Ok{};
}

RankProcesses::~RankProcesses() { end(); }

Mesh RankProcesses::mesh() { return groups_->mesh(); }

std::vector<RankPeer*> RankProcesses::peers() {
  std::vector<RankPeer*> all;
  for (Process& process : processes_) all.push_back(&process);
  return all;
}

// Followers that load, and who watches them.
Status RankProcesses::bring() {
  if (groups_) GLINT_TRY_STATUS(groups_->begin_again());
  GLINT_TRY_STATUS(options_.gate ? admit() : spawn(options_.model.shape.num_ranks()));
  ModelOptions model = options_.model;
  if (leader_) model.dir = leader_->options().dir;
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    const std::string memory = groups_->memory_path(processes_[i].pid > 0);
    model.rank = static_cast<int>(i) + 1;
    const Json start = rank_start(model, options_.build, options_.backend, memory);
    GLINT_TRY_STATUS(processes_[i].stream.send(dump_json(start)));
    processes_[i].stream.set_receive_seconds(kRankSilenceSeconds);
  }
  watcher_ = std::thread([this] { watch(); });
  Status connected = groups_->connect(peers(), [this](std::size_t i) -> Result<int> {
    GLINT_TRY(const Json said, take_answer(i));
    return static_cast<int>(said.find("port")->as_int());
  });
  return is_lost_ ? fault() : connected;
}

// The ranks from 1 to `end`.
Status RankProcesses::spawn(int end) {
  if (!groups_) GLINT_TRY_STATUS(make_groups(true));
  const std::lock_guard lock(mutex_);
  for (int rank = 1; rank < end; ++rank) {
    Process& process = processes_.emplace_back();
    GLINT_TRY(static_cast<RankPeer&>(process),
              spawn_rank(options_.command, groups_->memory_file(), false));
  }
  return Ok{};
}

// Admits the ranks of other processes that were started, and those of this one. What they share is
// settled by the first that come.
Status RankProcesses::admit() {
  GLINT_TRY(std::vector<RankGate::Newcomer> all,
            options_.gate->admit(seconds_from_now(groups_ ? kReturnSeconds : kMeetSeconds)));
  const bool one_machine = options_.gate->share_machine(all);
  if (!groups_) GLINT_TRY_STATUS(make_groups(one_machine));
  if (groups_->share_memory() && !one_machine) {
    return unavailable(
        "a rank has come back on another machine, and the others share memory; start the "
        "server anew");
  }
  GLINT_TRY_STATUS(spawn(options_.gate->first()));
  const std::lock_guard lock(mutex_);
  for (RankGate::Newcomer& one : all) {
    processes_.emplace_back().stream = std::move(one.stream);
  }
  return Ok{};
}

// Why no more is told: the failure of a rank that has told it before it ended, or its end.
Error RankProcesses::fault() {
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    while (const std::optional<Json> said = processes_[i].answers->pop_for(0)) {
      if (const Result<Json> good = good_answer(i, *said); !good.ok()) return good.error();
    }
  }
  return state().ok() ? unavailable("ranks end") : state().error();
}

// A follower's answer, or the failure that it told.
Result<Json> RankProcesses::take_answer(std::size_t follower) {
  std::optional<Json> said = processes_[follower].answers->pop();
  if (!said) return fault();
  return good_answer(follower, *std::move(said));
}

// take_answer() of a follower whose weights must have the fingerprint `leaders`.
Result<Json> RankProcesses::take_loaded(std::size_t follower, const std::string& leaders) {
  std::optional<Json> said = processes_[follower].answers->pop();
  const Json* const theirs = said ? said->find("checkpoint") : nullptr;  // none: it ends
  const bool is_leaders = theirs && theirs->as_string() == leaders;
  have_leaders_weights_ = have_leaders_weights_ && is_leaders;
  if (!said) return fault();
  GLINT_TRY(Json answer, good_answer(follower, *std::move(said)));
  if (is_leaders) return answer;
  return invalid(str("rank ", follower + 1, " has read another checkpoint in ",
                     leader_->options().dir,
                     " than the first rank; let the files be written before serving them, and be "
                     "the same on all machines"));
}

Status RankProcesses::await_loaded() {
  const std::string leaders = leader_->fingerprint();
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    GLINT_TRY(Json said, take_loaded(i, leaders));
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

void RankProcesses::start(RankCommand command) {
  if (is_lost_) return;
  const std::string bytes = write_command(command);
  for (Process& process : processes_) {
    if (const Status sent = process.stream.send(bytes); !sent.ok()) lose(sent.error().message);
  }
  if (is_answered(command.kind)) unanswered_.push_back(command.kind);
  if (command.kind == RankCommand::Kind::kReservePages) pages_ = command;
  if (command.kind == RankCommand::Kind::kReserveSteps) steps_ = command;
  if (command.kind == RankCommand::Kind::kRecordGraphs) graphs_ = command;
}

Status RankProcesses::finish() {
  Status all = state();
  const std::string leaders = unanswered_.empty() ? "" : leader_->fingerprint();
  have_leaders_weights_ = all.ok();  // those that are lost were told nothing
  for (; !unanswered_.empty(); unanswered_.pop_back()) {
    for (std::size_t i = 0; i < processes_.size(); ++i) {
      const Result<Json> said = take_loaded(i, leaders);
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
  return unavailable(lost_);
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
  if (groups_) groups_->end();
  for (const Process& process : processes_) {
    kill_rank(process);
    process.answers->close();
  }
}

// Takes what a follower tells next.
Heard RankProcesses::hear(std::size_t follower) {
  Process& process = processes_[follower];
  Result<Json> said = receive_message(process.stream);
  if (!said.ok() || !said.value().is_object()) return Heard::kNothing;
  const Json* const moved = said.value().find(kBeat);
  if (!moved) {
    return process.answers->push(std::move(said).value()) ? Heard::kMore : Heard::kNothing;
  }
  const std::lock_guard lock(mutex_);
  process.moved = *moved;
  return Heard::kMore;
}

// Until the group is lost, or ends.
void RankProcesses::watch() {
  const std::string why = watch_ranks(
      peers(), 1, [this](std::size_t i) { return hear(i); },
      [this] { return !ending_ && !is_lost_; });
  if (!why.empty()) lose(why);
}

// Every process, and who watches them.
void RankProcesses::end() {
  ending_ = true;
  hang_up();
  if (watcher_.joinable()) watcher_.join();
  decltype(processes_) ended;
  {
    const std::lock_guard lock(mutex_);
    ended.swap(processes_);
    unanswered_.clear();
  }
  // Without the lock, for which requests about the ranks would wait: a large process takes long.
  for (const Process& process : ended) await_end(process);
}

Status RankProcesses::restart(const std::function<Status()>& beside) {
  for (;;) {
    const std::string why = state().ok() ? "" : state().error().message;
    if (const int faults = faults_.add(); faults >= kMostFaults) {
      std::string report =
          str("ranks were lost ", faults, " times in ten minutes; the last: ", why);
      if (!std::exchange(gave_up_, true)) options_.on_give_up(report);
      return unavailable(std::move(report));
    }
    log(LogLevel::kError, why + "; all ranks start again");
    end();
    ending_ = false;
    is_lost_ = false;
    Status status = bring_back(beside);
    if (!status.ok()) lose("ranks do not start again: " + status.error().message);
    // Ranks that came and were lost again come back once more; no others are waited for.
    if (status.ok() || processes_.empty()) return status;
  }
}

// New processes, with what those before them had.
Status RankProcesses::bring_back(const std::function<Status()>& beside) {
  GLINT_TRY_STATUS(bring());
  GLINT_TRY_STATUS(await_loaded());
  for (const auto* command : {&pages_, &steps_, &graphs_}) {
    if (*command) start(**command);
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
    const Json moved = i == 0 ? Json() : processes_[i - 1].moved;
    all[i].set("collectives", groups_->traffic(static_cast<int>(i), moved));
  }
  return all;
}

}  // namespace glint
