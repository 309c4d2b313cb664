#include "cli/train_processes.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <thread>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/hub_model.h"
#include "cli/interrupt.h"
#include "cli/option_checks.h"
#include "cli/served_ranks.h"
#include "cli/train_layout.h"
#include "runtime/rank_launch.h"
#include "runtime/rank_peers.h"
#include "train/trainer.h"

namespace glint {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kGrace{2};      // for the others to end, after one has failed
constexpr std::chrono::seconds kOwnGrace{10};  // for rank 0 then: it may be late to fail alike
constexpr std::chrono::milliseconds kBetweenBeats{kRankBeatMilliseconds};

// Messages: a rank's place, that it should stop, why all end, and how its work ended.
constexpr const char *kStop = "stop", *kLost = "lost", *kEnd = "end";

Json start_of(int rank, const std::string& memory) {
  return Json::Object{{"rank", rank}, {"memory", memory}};
}

Json end_of(const Status& status) {
  Json message = outcome_message(status);
  message.set(kEnd, true);
  return message;
}

// The ends of ranks, as they tell them to who watches: the first failure, and until when it waits
// for the others then.
class Ends {
 public:
  Heard hear(RankPeer& peer) {
    const Result<Json> said = receive_message(peer.stream);
    if (!said.ok()) return Heard::kNothing;
    if (!said.value().find(kEnd)) return Heard::kMore;
    if (const Status end = outcome_in(said.value()); !end.ok() && !failure_) {
      failure_ = end.error();
      begin_grace();
    }
    return Heard::kLast;
  }
  void begin_grace() {
    if (!grace_end_) grace_end_ = Clock::now() + kGrace;
  }
  const std::optional<Error>& failure() const { return failure_; }
  bool are_awaited() const { return !grace_end_ || Clock::now() < *grace_end_; }

 private:
  std::optional<Error> failure_;
  std::optional<Clock::time_point> grace_end_;
};

// The work, with a console that shows nothing but on the first rank.
Status work_as(const TrainPeers& peers, Cli& cli, const TrainWork& work) {
  if (peers.is_first()) {
    GLINT_TRY_STATUS(work(peers, cli));
    return cli.console.close();
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> nowhere(std::fopen("/dev/null", "w"),
                                                                std::fclose);
  if (!nowhere) return unavailable("cannot open /dev/null");
  Console console(nowhere.get(), nowhere.get(), true);
  Cli quiet = {.console = console,
               .environment = cli.environment,
               .is_rank = cli.is_rank,
               .goes_on = cli.goes_on};
  return work(peers, quiet);
}

// A rank that supervise() has started.
Status run_started_rank(const MeshShape& shape, Cli& cli, const TrainWork& work) {
  for (const int fd : {kRankStreamFd, kRankMemoryFd}) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  LeaderConnection leader(RankStream{OwnedFd(kRankStreamFd)});
  const auto run = [&]() -> Status {
    GLINT_TRY(const Json start, leader.hear_message());
    GLINT_TRY(const RankMembership member,
              RankMembership::join(leader, start.find("memory")->as_string(), shape,
                                   static_cast<int>(start.find("rank")->as_int()), [](int) {}));
    std::thread([&leader] {
      for (;; shut_down()) {
        leader.show_life(true);
        if (!leader.hear().ok()) end_program(0);  // it ends with who watches it
      }
    }).detach();
    return work_as({member.mesh(), member.all(), shape.num_ranks()}, cli, work);
  };
  (void)leader.tell(end_of(run()));
  end_program(0);
}

// Processes of all ranks, from the newest checkpoint where they run `again`.
class StartedRanks {
 public:
  StartedRanks(const MeshShape& shape, Cli& cli) : shape_(shape), cli_(cli) {}
  ~StartedRanks() {
    for (const RankPeer& peer : peers_) kill_rank(peer);
    for (const RankPeer& peer : peers_) await_end(peer);
  }

  Status start(bool again) {
    GLINT_TRY(groups_, LeaderGroups::make(shape_, true, [](int) {}));
    std::vector<std::string> command = {kProgram,
                                        again ? kTrainRankAgainArgument : kTrainRankArgument};
    std::ranges::copy(cli_.command_line, std::back_inserter(command));
    std::string pids;
    for (int rank = 0; rank < shape_.num_ranks(); ++rank) {
      GLINT_TRY(RankPeer peer, spawn_rank(command, groups_->memory_file(), rank == 0));
      pids += str(rank ? ", " : "ranks: ", "rank ", rank, " is process ", peer.pid);
      peers_.push_back(std::move(peer));
      const Json start = start_of(rank, groups_->memory_path(true));
      GLINT_TRY_STATUS(peers_.back().stream.send(dump_json(start)));
    }
    cli_.console.print(pids + "\n");
    cli_.console.flush();
    return Ok{};
  }

  // Until all have told their end, or one has told a failure, which is the result, or is lost,
  // which `lost` says.
  Status watch(ShutdownGuard& shutdown, std::string& lost) {
    std::vector<RankPeer*> all;
    for (RankPeer& peer : peers_) all.push_back(&peer);
    Ends ends;
    bool stops = false;
    lost = watch_ranks(
        all, 0, [&](std::size_t i) { return ends.hear(peers_[i]); },
        [&] {
          if (!stops && shutdown.wait_for(0)) {
            stops = true;
            for (RankPeer& peer : peers_) {
              (void)peer.stream.send(dump_json(Json::Object{{kStop, true}}));
            }
          }
          return ends.are_awaited();
        });
    if (ends.failure()) return *ends.failure();
    return Ok{};
  }

 private:
  const MeshShape shape_;
  Cli& cli_;
  std::unique_ptr<LeaderGroups> groups_;
  std::vector<RankPeer> peers_;
};

Status supervise(const MeshShape& shape, int max_restarts, Cli& cli) {
  ShutdownGuard shutdown;
  Faults faults;
  for (bool again = false;; again = true) {
    std::string lost;
    {
      StartedRanks ranks(shape, cli);
      GLINT_TRY_STATUS(ranks.start(again));
      GLINT_TRY_STATUS(ranks.watch(shutdown, lost));
    }
    if (lost.empty()) return Ok{};
    if (shutdown.wait_for(0)) {
      return unavailable(lost + " before it was saved; --resume goes on");
    }
    if (const int count = faults.add(); count > max_restarts) {
      cli.console.note(str("glint: ", lost, "; ranks were lost ", count,
                           " times in ten minutes (--max-restarts ", max_restarts,
                           "); --resume goes on from the newest checkpoint"));
      end_program(kRanksLostExitCode);
    }
    cli.console.note(lost + "; all ranks start again from the newest checkpoint");
  }
}

[[noreturn]] void end_launch(Cli& cli, const std::string& why) {
  cli.console.note(str("glint: ", why,
                       "; ranks that a launcher has started end together: start them again with "
                       "--resume"));
  end_program(kRanksLostExitCode);
}

// Rank 0 of a launch, to which the others come.
class LaunchLeader {
 public:
  explicit LaunchLeader(Cli& cli) : cli_(cli) {}

  Status run(const RankEnv& env, const MeshShape& shape, const TrainWork& work) {
    GLINT_TRY_STATUS(meet(env, shape));
    std::thread watcher([this] { watch(); });
    const TrainPeers peers(groups_->mesh(), groups_->all(), env.local_size);
    const Status status = work_as(peers, cli_, work);
    if (!status.ok()) failed_ = true;
    watcher.join();
    return status;
  }

 private:
  Status meet(const RankEnv& env, const MeshShape& shape) {
    GLINT_TRY(RankHello self, hello_of(env));
    GLINT_TRY(const auto gate, RankGate::open(env.port, std::move(self)));
    GLINT_TRY(std::vector<RankGate::Newcomer> all, gate->admit(seconds_from_now(kMeetSeconds)));
    GLINT_TRY(groups_, LeaderGroups::make(shape, gate->share_machine(all), [this](int peer) {
                lose(str("rank ", peer, " is not connected any more"));
              }));
    for (RankGate::Newcomer& one : all) peers_.push_back({.stream = std::move(one.stream)});
    for (RankPeer& peer : peers_) pointers_.push_back(&peer);
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      const Json start = start_of(static_cast<int>(i) + 1, groups_->memory_path(false));
      GLINT_TRY_STATUS(peers_[i].stream.send(dump_json(start)));
      peers_[i].stream.set_receive_seconds(kRankSilenceSeconds);
    }
    std::atomic<bool> connected = false;
    std::thread watcher([&] {
      while (!connected) lose_who_hangs_up();
    });
    Status status = groups_->connect(pointers_, [this](std::size_t i) -> Result<int> {
      const Result<Json> said = receive_message(peers_[i].stream);
      if (!said.ok()) lose(str("rank ", i + 1, " shows no life"));
      return static_cast<int>(said.value().find("port")->as_int());
    });
    connected = true;
    watcher.join();
    return status;
  }
  // Ranks that connect to each other show no life yet, but are heard to end.
  void lose_who_hangs_up() {
    std::vector<pollfd> streams;
    for (const RankPeer& peer : peers_)
      streams.push_back({.fd = peer.stream.fd(), .events = POLLRDHUP, .revents = 0});
    if (::poll(streams.data(), streams.size(), kRankBeatMilliseconds) <= 0) return;
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (streams[i].revents != 0) lose(str("rank ", i + 1, " has ended"));
    }
  }
  void watch() {
    Ends ends;
    Clock::time_point beat = {};
    const auto show_life = [&] {
      if (const auto now = Clock::now(); now - beat > kBetweenBeats) {
        beat = now;
        tell_all(Json::Object{{kBeat, true}});
      }
    };
    const std::string lost = watch_ranks(
        pointers_, 1, [&](std::size_t i) { return ends.hear(peers_[i]); },
        [&] {
          show_life();
          // The others may have failed alike, and be about to say so: they end with this process.
          if (failed_) ends.begin_grace();
          return ends.are_awaited();
        });
    // And so may this rank.
    const auto own_end = Clock::now() + kOwnGrace;
    while (ends.failure() && !failed_ && Clock::now() < own_end) {
      show_life();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (failed_) return;
    if (ends.failure()) lose("a rank has failed: " + ends.failure()->message);
    if (!lost.empty()) lose(lost);
  }
  // Does not return: after it the work would go on with zeros.
  void lose(const std::string& why) {
    while (losing_.exchange(true)) std::this_thread::sleep_for(kGrace);
    tell_all(Json::Object{{kLost, why}});
    end_launch(cli_, why);
  }
  void tell_all(const Json& what) {
    const std::lock_guard lock(telling_);
    for (RankPeer& peer : peers_) (void)peer.stream.send(dump_json(what));
  }

  Cli& cli_;
  std::unique_ptr<LeaderGroups> groups_;
  std::vector<RankPeer> peers_;
  std::vector<RankPeer*> pointers_;
  std::atomic<bool> failed_ = false, losing_ = false;
  std::mutex telling_;
};

// Another rank of a launch.
Status follow_launch(const RankEnv& env, const MeshShape& shape, Cli& cli, const TrainWork& work) {
  GLINT_LOG(kInfo, env.describe_ranks());
  GLINT_TRY(const AgentOptions agent, agent_of(env));
  GLINT_TRY(RankStream stream, come_to_leader(agent, false));
  // The thread that listens may outlive this.
  const auto leader = std::make_shared<LeaderConnection>(std::move(stream));
  const auto ended = std::make_shared<std::atomic<bool>>(false);
  GLINT_TRY(const Json start, leader->hear_message());
  const auto on_lost = [&cli](int peer) {
    std::this_thread::sleep_for(2 * kGrace + kOwnGrace);  // the leader may know more
    end_launch(cli, str("rank ", peer, " is not connected any more"));
  };
  GLINT_TRY(
      const RankMembership member,
      RankMembership::join(*leader, start.find("memory")->as_string(), shape, env.rank, on_lost));
  std::thread([leader] { leader->show_life(); }).detach();
  std::thread([leader, ended, &cli] {
    std::string lost = "rank 0 has ended";
    const auto hear = [&] {
      const Result<Json> said = leader->hear_message();
      if (!said.ok()) return Heard::kNothing;
      const Json* const why = said.value().find(kLost);
      if (!why) return Heard::kMore;
      lost = why->as_string();
      return Heard::kLast;
    };
    // Until its first message it waits for ranks that connect to each other.
    if (hear() == Heard::kMore) {
      if (std::string why = leader->watch(hear); !why.empty()) lost = std::move(why);
    }
    if (!*ended) end_launch(cli, lost);
  }).detach();
  const TrainPeers peers(member.mesh(), member.all(), env.local_size);
  const Status status = work_as(peers, cli, work);
  *ended = true;
  (void)leader->tell(end_of(status));
  return status;
}

}  // namespace

Status run_train_ranks(const TrainProcessOptions& options, const MeshShape& shape, Cli& cli,
                       const TrainWork& work) {
  GLINT_TRY_STATUS(check_least("max-restarts", options.max_restarts, 0));
  GLINT_TRY_STATUS(check_layout(shape));
  if (options.ranks == "threads" || shape.num_ranks() == 1) return work({}, cli);
  if (cli.is_rank) return run_started_rank(shape, cli, work);
  GLINT_TRY(std::optional<RankEnv> env,
            launched_rank(shape.num_ranks(), "the layout is " + describe(shape), cli));
  if (env) env->asked = values_of(shape, true);
  const std::jthread launcher = watch_launcher(env);
  if (!env) return supervise(shape, options.max_restarts, cli);
  if (env->rank > 0) return follow_launch(*env, shape, cli, work);
  return LaunchLeader(cli).run(*env, shape, work);
}

Result<std::string> model_dir(const std::string& model, const TrainPeers& peers, const Cli& cli) {
  Result<std::string> dir = std::string();
  for (int rank = 0; rank < peers.size(); ++rank) {
    if (rank == peers.rank()) dir = model_dir(model, cli);
    GLINT_TRY_STATUS(peers.agree(dir.ok() ? Status(Ok{}) : Status(dir.error())));
  }
  return dir;
}

Result<std::optional<std::string>> find_latest(const RunFolder& folder, const TrainPeers& peers,
                                               DirectoryLock* lock) {
  GLINT_TRY(const std::string found, peers.on_first_text([&]() -> Result<std::string> {
    if (lock) GLINT_TRY_STATUS(lock->lock(folder.dir));
    GLINT_TRY(const std::optional<std::string> latest, Trainer::find_latest(folder.dir));
    if (latest && !folder.resumes) {
      return invalid(str(folder.dir, " holds a run already (", *latest,
                         "); give --resume to go on with it, or another --", folder.option));
    }
    if (!latest && is_present(folder.dir + "/config.json")) {
      return invalid(str(folder.dir,
                         " holds a checkpoint (config.json), not a run of training; give ",
                         "another --", folder.option));
    }
    return latest.value_or("");
  }));
  if (found.empty()) return std::optional<std::string>();
  return std::optional(found);
}

}  // namespace glint
