// RankProcesses: followers that are processes of this host, which their leader starts, watches and
// starts again.
//
//   leader --stream: passes--> rank 1, 2, ..       all of them: collectives, in shared memory
//
// A rank that ends, or that shows no life for 5 seconds, takes its group with it: the leader's
// collectives no longer wait, the pass that it runs has failed (state), and restart() makes new
// ranks. A rank ends when its stream does, so none outlives its leader.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/json.h"
#include "comm/shared_comm.h"
#include "runtime/loaded_model.h"
#include "runtime/rank_wire.h"

namespace glint {

struct RankProcessOptions {
  std::vector<std::string> command;  // comes to run_rank_process() (rank_process.h)
  std::string build;                 // of this program; all ranks have the same
  ModelOptions model;  // of the leader, whose shape has tp alone; the others' differ in their rank
  Json backend;        // what make_backend() of run_rank_process() takes
  // Called with a report where ranks are lost for the third time in ten minutes; does not return.
  std::function<void(const std::string& report)> on_give_up;
};

class RankProcesses final : public Followers {
 public:
  // Starts the processes, which load their parts meanwhile.
  static Result<std::unique_ptr<RankProcesses>> start(RankProcessOptions options);
  ~RankProcesses() override;

  // The leader's, over the processes' group.
  Mesh mesh();
  // Waits until all have loaded the checkpoint that `leader` has, which they follow from now on.
  // `leader`, whose mesh is mesh(), runs no pass after this has ended.
  Status join(LoadedModel& leader);

  void start(RankPass pass) override;
  Status finish() override;
  Status state() const override;
  Status restart() override;

  // Each rank: its part, and what it has moved, the leader first; from any thread.
  Json describe() const;

 private:
  struct Process {
    pid_t pid = 0;
    RankStream stream;
    Json said;  // once loaded
  };
  explicit RankProcesses(RankProcessOptions options, SharedGroup group, OwnedFd memory);
  Status spawn();
  Status await_loaded();
  Status bring_back();
  void watch();
  void end();
  void lose(const std::string& why);

  const RankProcessOptions options_;
  const SharedGroup group_;
  const OwnedFd memory_;  // of the group
  std::unique_ptr<Comm> comm_;
  CountingComm counting_;
  LoadedModel* leader_ = nullptr;
  std::vector<Process> processes_;  // of ranks 1 and up
  std::optional<RankPass> pages_, steps_;
  std::vector<RankPass::Kind> unanswered_;
  std::deque<std::chrono::steady_clock::time_point> faults_;
  mutable std::mutex mutex_;
  std::string lost_;  // why the group is lost; empty: it is not
  std::atomic<bool> ending_ = false;
  std::thread watcher_;
};

}  // namespace glint
