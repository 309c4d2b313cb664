#include "cli/rank_env.h"

#include <algorithm>
#include <charconv>

#include "base/hash.h"
#include "base/parse_number.h"
#include "base/str.h"
#include "cli/option_checks.h"

namespace glint {
namespace {

constexpr int kMostRanks = 1 << 16;
constexpr int kFirstPort = 20000, kPorts = 10000;

class Variables {
 public:
  explicit Variables(const std::map<std::string, std::string>& all) : all_(all) {}

  std::string text(const char* name) const {
    const auto found = all_.find(name);
    return found == all_.end() ? std::string() : found->second;
  }
  bool has(const char* name) const { return !text(name).empty(); }
  Result<int> number(const char* name, int least, int most) const {
    const std::string given = text(name);
    const auto value = parse_number<int>(given);
    if (!value || *value < least || *value > most)
      return invalid(str(name, " is ", quoted(given), "; expected a number from ", least, " to ",
                         most, ", as launchers set it"));
    return *value;
  }

 private:
  const std::map<std::string, std::string>& all_;
};

// "node[01-16,20],gpu3" -> "node01".
std::string first_host(const std::string& list) {
  const std::size_t bracket = list.find_first_of("[,");
  if (bracket == list.npos || list[bracket] == ',') return list.substr(0, bracket);
  const std::size_t end = list.find_first_of("-,]", bracket);
  const std::size_t close = list.find(']', bracket);
  if (close == list.npos) return {};
  const std::size_t next = std::min(list.find(',', close), list.size());
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1) +
         list.substr(close + 1, next - close - 1);
}

// The tasks of node `node` by "2(x3),1": 2 on each of three nodes, and 1 on the fourth; 1 where the
// text does not say.
int tasks_of_node(const std::string& text, int node) {
  for (const std::string_view part : split(text, ',')) {
    int tasks = 0, nodes = 1;
    std::from_chars(part.data(), part.data() + part.size(), tasks);
    if (const std::size_t times = part.find("(x"); times != part.npos)
      std::from_chars(part.data() + times + 2, part.data() + part.size(), nodes);
    if (node < nodes) return std::max(tasks, 1);
    node -= nodes;
  }
  return 1;
}

// A launcher's own names for what RankEnv says; null where it does not.
struct Names {
  const char *launcher, *rank, *size, *local_size;
};

Result<RankEnv> read(const Variables& v, const Names& names, int ranks = 1) {
  RankEnv env = {.launcher = names.launcher, .size = ranks, .mark = names.rank};
  if (names.size) {
    GLINT_TRY(env.size, v.number(names.size, 1, kMostRanks));
  }
  GLINT_TRY(env.rank, v.number(names.rank, 0, env.size - 1));
  if (names.local_size && v.has(names.local_size)) {
    GLINT_TRY(env.local_size, v.number(names.local_size, 1, env.size));
  }
  env.leader = v.text("MASTER_ADDR");
  if (v.has("MASTER_PORT")) {
    GLINT_TRY(env.port, v.number("MASTER_PORT", 1, 65534));
  }
  return env;
}

// The rest, where `leader` is what the launcher says of the first rank's host.
Result<std::optional<RankEnv>> complete(RankEnv env, const std::string& launch,
                                        const std::string& leader, const char* remedy) {
  if (env.size == 1) return std::nullopt;
  env.launch = env.launcher + " " + launch;
  if (env.leader.empty()) env.leader = leader;
  if (env.leader.empty()) {
    return invalid(str(env.launcher, " does not say where rank 0 of ", env.size, " is; ", remedy));
  }
  if (env.port == 0) env.port = kFirstPort + static_cast<int>(fnv1a(env.launch) % kPorts);
  return env;
}

Result<std::optional<RankEnv>> read_torchrun(const Variables& v) {
  GLINT_TRY(RankEnv env, read(v, {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"}));
  const std::string launch =
      str(v.text("MASTER_ADDR"), ":", v.text("MASTER_PORT"), " ", v.text("TORCHELASTIC_RUN_ID"),
          " ", v.text("TORCHELASTIC_RESTART_COUNT"));
  // Without torchrun people set the variables, or Kubernetes does.
  env.mark = v.has("TORCHELASTIC_RUN_ID") ? "TORCHELASTIC_RUN_ID" : "";
  // There torchrun itself listens.
  if (v.text("TORCHELASTIC_USE_AGENT_STORE") == "True" && env.port != 0) ++env.port;
  return complete(std::move(env), launch, "", "set MASTER_ADDR to its host, or unset RANK");
}

Result<std::optional<RankEnv>> read_open_mpi(const Variables& v) {
  GLINT_TRY(RankEnv env, read(v, {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                  "OMPI_COMM_WORLD_LOCAL_SIZE"}));
  const std::string here = env.local_size == env.size ? "127.0.0.1" : "";
  return complete(std::move(env), v.text("PMIX_NAMESPACE"), here,
                  "give mpirun -x MASTER_ADDR=HOST, the first of its hosts");
}

Result<std::optional<RankEnv>> read_slurm(const Variables& v) {
  GLINT_TRY(RankEnv env, read(v, {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", nullptr}));
  if (v.has("SLURM_NODEID")) {
    GLINT_TRY(const int node, v.number("SLURM_NODEID", 0, kMostRanks));
    env.local_size = std::min(tasks_of_node(v.text("SLURM_STEP_TASKS_PER_NODE"), node), env.size);
  }
  const bool one_node = v.text("SLURM_STEP_NUM_NODES") == "1";
  return complete(std::move(env), str(v.text("SLURM_JOB_ID"), ".", v.text("SLURM_STEP_ID")),
                  one_node ? "127.0.0.1" : first_host(v.text("SLURM_STEP_NODELIST")),
                  "set MASTER_ADDR to the first host of the job");
}

Result<std::optional<RankEnv>> read_lws(const Variables& v) {
  GLINT_TRY(RankEnv env,
            read(v, {"LeaderWorkerSet", "LWS_WORKER_INDEX", "LWS_GROUP_SIZE", nullptr}));
  env.mark.clear();
  const std::string leader = v.text("LWS_LEADER_ADDRESS");
  return complete(std::move(env), leader, leader, "set LWS_LEADER_ADDRESS");
}

Result<std::optional<RankEnv>> read_pmix(const Variables& v, int ranks) {
  GLINT_TRY(RankEnv env, read(v, {"PMIx", "PMIX_RANK", nullptr, "LOCAL_WORLD_SIZE"}, ranks));
  return complete(std::move(env), v.text("PMIX_NAMESPACE"), "",
                  "set MASTER_ADDR to its host, or unset PMIX_RANK");
}

// "HOST:PORT" -> its parts; an address of IPv6 without a port has colons, too.
Status split_port(std::string& host, int& port) {
  const std::size_t colon = host.rfind(':');
  const bool bare = colon == host.npos || (host.find(':') != colon && host[colon - 1] != ']');
  if (!bare) {
    const auto number = parse_number<int>(std::string_view(host).substr(colon + 1));
    if (!number)
      return invalid(str("--master-addr is ", quoted(host), "; expected HOST, or HOST:PORT"));
    port = *number;
    host.resize(colon);
  }
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty()) return invalid("--master-addr names no host; expected HOST, or HOST:PORT");
  return Ok{};
}

}  // namespace

void RankEnv::deal_out(int ranks) {
  count = ranks / size;
  rank *= count;
  local_size *= count;
  size = ranks;
}

std::string RankEnv::describe() const {
  if (launcher == kNodes) return str(kNodes, " is ", size);
  return str(launcher, " has started ", size, " processes");
}

std::string RankEnv::describe_ranks() const {
  return str(count == 1 ? str("rank ", rank) : str("ranks ", rank, " to ", rank + count - 1),
             " of ", size, ", by ", launcher, "; the first is at ", leader, ":", port);
}

Result<std::optional<RankEnv>> read_nodes(const NodeOptions& options) {
  const int nodes = options.nnodes;
  GLINT_TRY_STATUS(check_range("nnodes", nodes, 1, kMostRanks));
  if (options.node_rank < 0 || options.node_rank >= nodes)
    return invalid(str("--node-rank is ", options.node_rank, "; of ", nodes,
                       " nodes (--nnodes) it must be from 0 to ", nodes - 1));
  if (nodes == 1) return std::nullopt;
  RankEnv env = {.launcher = kNodes,
                 .rank = options.node_rank,
                 .size = nodes,
                 .leader = options.master_addr,
                 .port = options.master_port};
  if (env.leader.empty())
    return invalid(str("--nnodes is ", nodes,
                       ", and nothing says where node 0 is; give --master-addr HOST on all nodes"));
  GLINT_TRY_STATUS(split_port(env.leader, env.port));
  GLINT_TRY_STATUS(check_range("master-port", env.port, 1, 65535));
  env.launch = str(kNodes, ' ', nodes, ", port ", env.port);
  return env;
}

std::vector<std::string> ignored_nodes(const NodeOptions& options) {
  std::vector<std::string> out;
  if (options.nnodes != 1) return out;
  const std::string why = " (there is one machine; --nnodes says how many)";
  if (!options.master_addr.empty()) out.push_back(str("--master-addr ", options.master_addr, why));
  if (options.master_port != NodeOptions().master_port)
    out.push_back(str("--master-port ", options.master_port, why));
  return out;
}

Result<std::optional<RankEnv>> read_rank_env(const std::map<std::string, std::string>& variables,
                                             int ranks) {
  const Variables v(variables);
  if (v.has("RANK") && v.has("WORLD_SIZE")) return read_torchrun(v);
  if (v.has("OMPI_COMM_WORLD_SIZE")) return read_open_mpi(v);
  // A batch script has the job's variables, but no step's.
  if (v.has("SLURM_STEP_ID") && v.has("SLURM_STEP_NUM_TASKS")) return read_slurm(v);
  if (v.has("LWS_GROUP_SIZE")) return read_lws(v);
  if (v.has("PMIX_RANK") && v.has("PMIX_NAMESPACE")) return read_pmix(v, ranks);
  return std::nullopt;
}

}  // namespace glint
