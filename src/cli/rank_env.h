// Which rank of which launch a process is, by the variables that its launcher set.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"

namespace glint {

struct RankEnv {
  std::string launcher = {};  // "torchrun", "Open MPI", "Slurm", "LeaderWorkerSet", "PMIx"
  std::string launch = {};    // the same text for all ranks of a launch, and for no other
  int rank = 0, size = 1;
  int local_size = 1;       // ranks on this machine
  std::string leader = {};  // the host of rank 0
  int port = 0;             // where it is met
};

// The names of all variables that are read.
std::span<const char* const> rank_variables();

// Nothing where no launcher started this process, or it alone. `ranks`: how many there are to be,
// for launchers that tell a process its rank and no more. In this order:
//
//   torchrun         RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
//   Open MPI         OMPI_COMM_WORLD_{RANK,SIZE,LOCAL_SIZE}, PMIX_NAMESPACE
//   Slurm's srun     SLURM_PROCID, SLURM_STEP_{ID,NUM_TASKS,NODELIST,TASKS_PER_NODE}, ..
//   LeaderWorkerSet  LWS_{WORKER_INDEX,GROUP_SIZE,LEADER_ADDRESS}
//   PMIx             PMIX_RANK, PMIX_NAMESPACE: prterun, and others
//
// MASTER_ADDR and MASTER_PORT go before what a launcher says of the first rank's host. Without a
// port it is a function of the launch, in [20000, 30000). Fails where a variable is missing or says
// something impossible.
Result<std::optional<RankEnv>> read_rank_env(const std::map<std::string, std::string>& variables,
                                             int ranks);

}  // namespace glint
