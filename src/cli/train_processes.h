// Ranks of training that are processes. This program starts them, all of them, and only watches:
//
//   glint train sft --ranks processes --dp 2     hears signals, starts all again where one is lost
//     rank 0: the same command line              prints, answers, writes files
//     rank 1: the same command line
//
// Or torchrun, mpirun or srun has started them: then each takes its place, and all end where one is
// lost, because only their launcher can start them again.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/directory_lock.h"
#include "cli/command.h"
#include "model/model_partition.h"
#include "train/train_peers.h"

namespace glint {

// Before the command line of a rank that this program has started, at first, or where the run goes
// on.
inline constexpr const char* kTrainRankArgument = "--run-a-rank-of-training";
inline constexpr const char* kTrainRankAgainArgument = "--run-a-rank-of-training-again";

struct TrainProcessOptions {
  std::string ranks = "threads";
  int max_restarts = 2;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("ranks", ranks,
      "what ranks are: threads of this process; or processes, which it starts itself, or takes its "
      "place among where torchrun, mpirun or srun has started them",
      {"threads", "processes"});
    v("max-restarts=N", max_restarts,
      "how often in ten minutes processes start again from the newest checkpoint where one is "
      "lost; "
      "then the exit code is 3");
  }
};

// The work of one rank; of ranks that are threads, of all. Only the first one's `cli` prints.
using TrainWork = std::function<Status(const TrainPeers& peers, Cli& cli)>;

// Runs a command that trains over `shape`, as `options` says. With `cli.goes_on` it must resume.
Status run_train_ranks(const TrainProcessOptions& options, const MeshShape& shape, Cli& cli,
                       const TrainWork& work);

// model_dir() of all ranks, one after another: on each machine the first fetches what the others
// then find.
Result<std::string> model_dir(const std::string& model, const TrainPeers& peers, const Cli& cli);

// Where checkpoints of a run go.
struct RunFolder {
  const std::string& dir;
  const char* option;  // that names it
  bool resumes;
};

// Trainer::find_latest() of the first rank, for all, which takes `lock`, if there is one. Fails on
// a run that is there already and does not go on, and on a folder that is a checkpoint.
Result<std::optional<std::string>> find_latest(const RunFolder& folder, const TrainPeers& peers,
                                               DirectoryLock* lock = nullptr);

}  // namespace glint
