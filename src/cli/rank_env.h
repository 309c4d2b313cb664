// Which rank of which launch a process is, by the variables that its launcher set, or by options.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace glint {

struct RankEnv {
  std::string launcher = {};  // "torchrun", "Open MPI", "Slurm", "LeaderWorkerSet", "PMIx", kNodes
  std::string launch = {};    // the same text for all ranks of a launch, and for no other
  int rank = 0, size = 1;
  int local_size = 1;       // ranks on this machine
  std::string leader = {};  // the host of rank 0
  int port = 0;             // where it is met
  int count = 1;            // ranks of this process: `rank` and those after it
  // The variable that its launcher, which stays, has set for it; empty where nobody stays.
  std::string mark = {};
  std::map<std::string, std::string> asked = {};  // see RankHello

  // Deals out ranks where each of the `size` processes is to have some of `ranks`, as many as the
  // others.
  void deal_out(int ranks);
  // "torchrun has started 3 processes"
  std::string describe() const;
  // "ranks 2 to 3 of 4, by --nnodes; the first is at node1:29501"
  std::string describe_ranks() const;
};

// A process on each machine, as the command line of each says it.
struct NodeOptions {
  int nnodes = 1, node_rank = 0;
  std::string master_addr = {};
  int master_port = 29501;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Several machines");
    v("nnodes=N", nnodes,
      "machines on each of which this command is started, to share the ranks (vLLM's meaning)");
    v("node-rank=K", node_rank,
      "which of them this is; number 0 serves, and is met by the others (vLLM's meaning)");
    v("master-addr=HOST", master_addr,
      "number 0's address, the same on all; HOST:PORT says --master-port, too (vLLM's meaning)");
    v("master-port=PORT", master_port, "the port where number 0 is met (vLLM's meaning)");
  }
};
inline constexpr const char* kNodes = "--nnodes";

// The process of a machine; none: there is but one machine.
Result<std::optional<RankEnv>> read_nodes(const NodeOptions& options);

// Options of an only machine that say where the others meet it.
std::vector<std::string> ignored_nodes(const NodeOptions& options);

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
