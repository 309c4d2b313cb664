// RankProcesses: followers that are processes, which their leader starts on its host, or meets
// where a launcher has started them (rank_launch.h); it watches them, and makes them begin again.
//
//   leader --stream: commands-> rank 1, 2, ..      all of them: collectives, in memory that they
//          <--answers, beats--                     share, or over sockets if on several hosts
//
// A rank that ends, or that shows no life for 5 seconds, takes its group with it: the leader's
// collectives no longer wait, the command that it runs has failed (state), and restart() makes new
// ranks. A rank ends when its stream does, so none outlives its leader.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/json.h"
#include "base/queue.h"
#include "runtime/loaded_model.h"
#include "runtime/rank_launch.h"
#include "runtime/rank_peers.h"

namespace glint {

struct RankProcessOptions {
  std::vector<std::string> command;  // comes to run_rank_process() (rank_process.h)
  std::string build;                 // of this program; all ranks have the same
  ModelOptions model;                // of the leader; the others' differ in their rank
  Json backend;                      // what make_backend() of run_rank_process() takes
  // Where followers come from that are another process's; none: `command` is started for all.
  std::unique_ptr<RankGate> gate = {};
  // Called with a report, once, where ranks are lost for the third time in ten minutes; then none
  // start again, and what runs fails.
  std::function<void(const std::string& report)> on_give_up;
};

class RankProcesses final : public Followers {
 public:
  // Starts or meets the processes, which load their parts meanwhile.
  static Result<std::unique_ptr<RankProcesses>> start(RankProcessOptions options);
  ~RankProcesses() override;

  // The leader's, over the processes' groups.
  Mesh mesh();
  // Waits until all have loaded the checkpoint that `leader` has, which they follow from now on.
  // `leader`, whose mesh is mesh(), runs no command after this has ended.
  Status join(LoadedModel& leader);

  void start(RankCommand command) override;
  Status finish() override;
  bool have_leaders_weights() const override { return have_leaders_weights_; }
  Status state() const override;
  void lose(const std::string& why) override;
  Status restart(const std::function<Status()>& beside) override;

  // Each rank: its part, and what it has moved, the leader first; from any thread.
  Json describe() const;

 private:
  // A follower. Who watches them is the only one to read what they tell.
  struct Process : RankPeer {
    std::unique_ptr<Queue<Json>> answers = std::make_unique<Queue<Json>>();
    Json said = {};   // about it, once loaded
    Json moved = {};  // by its collectives, as it told last
  };
  explicit RankProcesses(RankProcessOptions options);
  Status make_groups(bool share_memory);
  std::vector<RankPeer*> peers();
  Status bring();
  Status spawn(int end);
  Status admit();
  Error fault();
  Result<Json> take_answer(std::size_t follower);
  Result<Json> take_loaded(std::size_t follower, const std::string& leaders);
  Heard hear(std::size_t follower);
  Status await_loaded();
  Status bring_back(const std::function<Status()>& beside);
  void watch();
  void hang_up();
  void end();

  const RankProcessOptions options_;
  std::unique_ptr<LeaderGroups> groups_;
  LoadedModel* leader_ = nullptr;
  std::vector<Process> processes_;  // of ranks 1 and up
  std::optional<RankCommand> pages_, steps_, graphs_;
  std::vector<RankCommand::Kind> unanswered_;
  bool have_leaders_weights_ = true;  // by the last answers
  Faults faults_;
  bool gave_up_ = false;
  mutable std::mutex mutex_;
  std::string lost_;  // why the group is lost
  std::atomic<bool> is_lost_ = false;
  std::atomic<bool> ending_ = false;
  std::thread watcher_;
};

}  // namespace glint
