#include "cli/rank_env.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

using Variables = std::map<std::string, std::string>;

constexpr int kRanks = 4;  // of the layout

RankEnv env_of(const Variables& variables) {
  const auto env = read_rank_env(variables, kRanks);
  EXPECT_TRUE(env.ok()) << env.error().message;
  EXPECT_TRUE(env.value()) << "no launcher was found";
  return env.value().value_or(RankEnv{});
}

std::string refusal(const Variables& variables) {
  const auto env = read_rank_env(variables, kRanks);
  return env.ok() ? "it was read" : env.error().message;
}

const Variables kTorchrun = {{"RANK", "5"},
                             {"WORLD_SIZE", "8"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "4"},
                             {"MASTER_ADDR", "10.0.0.7"},
                             {"MASTER_PORT", "29500"}};

TEST(RankEnv, of_torchrun) {
  const RankEnv env = env_of(kTorchrun);
  EXPECT_EQ(env.launcher, "torchrun");
  EXPECT_EQ(env.rank, 5);
  EXPECT_EQ(env.size, 8);
  EXPECT_EQ(env.local_size, 4);
  EXPECT_EQ(env.leader, "10.0.0.7");
  EXPECT_EQ(env.port, 29500);
  // Where torchrun's own store has the port, the next one is taken.
  Variables agent = kTorchrun;
  agent["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_EQ(env_of(agent).port, 29501);
}

// As mpirun 4.1 and 5 set them for the second of two.
TEST(RankEnv, of_open_mpi) {
  for (const char* launch : {"1220542465", "prterun-vm-1234@1"}) {
    const Variables variables = {{"OMPI_COMM_WORLD_RANK", "1"},
                                 {"OMPI_COMM_WORLD_SIZE", "2"},
                                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                 {"PMIX_NAMESPACE", launch},
                                 {"PMIX_RANK", "1"}};
    const RankEnv env = env_of(variables);
    EXPECT_EQ(env.launcher, "Open MPI");
    EXPECT_EQ(env.rank, 1);
    EXPECT_EQ(env.local_size, 2);
    EXPECT_EQ(env.leader, "127.0.0.1");
    EXPECT_GE(env.port, 20000);
    EXPECT_LT(env.port, 30000);
    EXPECT_EQ(env.launch, std::string("Open MPI ") + launch);
    Variables first = variables;
    first["OMPI_COMM_WORLD_RANK"] = "0";
    EXPECT_EQ(env_of(first).port, env.port);
    // Over machines it has to be said where the first is.
    Variables spread = variables;
    spread["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
    EXPECT_NE(refusal(spread).find("-x MASTER_ADDR"), std::string::npos) << refusal(spread);
    spread["MASTER_ADDR"] = "node1";
    EXPECT_EQ(env_of(spread).leader, "node1");
  }
}

// As srun sets them.
TEST(RankEnv, of_slurm) {
  Variables variables = {{"SLURM_PROCID", "3"},
                         {"SLURM_NODEID", "1"},
                         {"SLURM_JOB_ID", "17"},
                         {"SLURM_STEP_ID", "0"},
                         {"SLURM_STEP_NUM_TASKS", "5"},
                         {"SLURM_STEP_NUM_NODES", "3"},
                         {"SLURM_STEP_NODELIST", "node[01-02],gpu7"},
                         {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"}};
  const RankEnv env = env_of(variables);
  EXPECT_EQ(env.launcher, "Slurm");
  EXPECT_EQ(env.rank, 3);
  EXPECT_EQ(env.size, 5);
  EXPECT_EQ(env.local_size, 2);
  EXPECT_EQ(env.leader, "node01");
  EXPECT_EQ(env.launch, "Slurm 17.0");
  variables["SLURM_NODEID"] = "2";
  EXPECT_EQ(env_of(variables).local_size, 1);
  for (const auto& [list, host] :
       Variables{{"one", "one"}, {"one,two", "one"}, {"n[7]", "n7"}, {"n[3,5-9]-ib,m1", "n3-ib"}}) {
    variables["SLURM_STEP_NODELIST"] = list;
    EXPECT_EQ(env_of(variables).leader, host);
  }
  variables["SLURM_STEP_NUM_NODES"] = "1";
  EXPECT_EQ(env_of(variables).leader, "127.0.0.1");
}

TEST(RankEnv, of_leader_worker_set) {
  const RankEnv env = env_of({{"LWS_WORKER_INDEX", "1"},
                              {"LWS_GROUP_SIZE", "2"},
                              {"LWS_LEADER_ADDRESS", "glint-0.glint.default"}});
  EXPECT_EQ(env.launcher, "LeaderWorkerSet");
  EXPECT_EQ(env.rank, 1);
  EXPECT_EQ(env.local_size, 1);
  EXPECT_EQ(env.leader, "glint-0.glint.default");
}

// As prterun sets them.
TEST(RankEnv, of_pmix) {
  Variables variables = {{"PMIX_RANK", "3"}, {"PMIX_NAMESPACE", "prterun-vm-1234@1"}};
  EXPECT_NE(refusal(variables).find("MASTER_ADDR"), std::string::npos);
  variables["MASTER_ADDR"] = "node1";
  const RankEnv env = env_of(variables);
  EXPECT_EQ(env.launcher, "PMIx");
  EXPECT_EQ(env.rank, 3);
  EXPECT_EQ(env.size, kRanks);
  EXPECT_EQ(env.local_size, 1);
  EXPECT_EQ(env.leader, "node1");
  EXPECT_EQ(env.launch, "PMIx prterun-vm-1234@1");
  variables["PMIX_RANK"] = "4";
  EXPECT_NE(refusal(variables).find("PMIX_RANK"), std::string::npos);
}

TEST(RankEnv, is_none_where_a_process_is_alone) {
  for (const Variables& variables :
       {Variables{}, Variables{{"RANK", "0"}, {"WORLD_SIZE", "1"}}, Variables{{"RANK", "0"}},
        // A batch script, which srun has not started.
        Variables{{"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "17"}},
        Variables{{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}}}) {
    const auto env = read_rank_env(variables, kRanks);
    ASSERT_TRUE(env.ok()) << env.error().message;
    EXPECT_FALSE(env.value());
  }
}

TEST(RankEnv, names_what_is_impossible) {
  for (const auto& [name, value] :
       {std::pair{"RANK", "8"}, {"WORLD_SIZE", "many"}, {"MASTER_PORT", "0"}}) {
    Variables variables = kTorchrun;
    variables[name] = value;
    const std::string why = refusal(variables);
    EXPECT_NE(why.find(name), std::string::npos) << why;
    EXPECT_NE(why.find(value), std::string::npos) << why;
  }
  Variables variables = kTorchrun;
  variables.erase("MASTER_ADDR");
  EXPECT_NE(refusal(variables).find("MASTER_ADDR"), std::string::npos);
}

TEST(RankEnv, of_machines_by_the_command_line) {
  const auto nodes = [](const NodeOptions& options) {
    const auto env = read_nodes(options);
    EXPECT_TRUE(env.ok()) << env.error().message;
    EXPECT_TRUE(env.value());
    return env.value().value_or(RankEnv{});
  };
  RankEnv env = nodes({.nnodes = 2, .node_rank = 1, .master_addr = "10.0.0.7"});
  EXPECT_EQ(env.leader, "10.0.0.7");
  EXPECT_EQ(env.port, 29501);
  EXPECT_EQ(env.launch, nodes({.nnodes = 2, .master_addr = "node1:29501"}).launch);
  env.deal_out(8);
  EXPECT_EQ(env.rank, 4);
  EXPECT_EQ(env.count, 4);
  EXPECT_EQ(env.size, 8);
  EXPECT_EQ(env.local_size, 4);
  for (const auto& [address, host, port] : {std::tuple("node1:5000", "node1", 5000),
                                            {"[fe80::1]:5000", "fe80::1", 5000},
                                            {"[fe80::1]", "fe80::1", 29501},
                                            {"fe80::1", "fe80::1", 29501}}) {
    const RankEnv met = nodes({.nnodes = 2, .master_addr = address});
    EXPECT_EQ(met.leader, host);
    EXPECT_EQ(met.port, port);
  }
  EXPECT_FALSE(read_nodes({}).value());
  EXPECT_TRUE(ignored_nodes({}).empty());
  EXPECT_TRUE(ignored_nodes({.nnodes = 2, .master_addr = "a", .master_port = 1}).empty());
  const std::string why = " (there is one machine; --nnodes says how many)";
  EXPECT_EQ(ignored_nodes({.master_addr = "a", .master_port = 1}),
            (std::vector<std::string>{"--master-addr a" + why, "--master-port 1" + why}));
  const auto error = [](const NodeOptions& options) { return read_nodes(options).error().message; };
  EXPECT_EQ(error({.nnodes = 0}), "--nnodes is 0; it must be from 1 to 65536");
  EXPECT_EQ(error({.nnodes = 2, .node_rank = 2}),
            "--node-rank is 2; of 2 nodes (--nnodes) it must be from 0 to 1");
  EXPECT_EQ(
      error({.nnodes = 2}),
      "--nnodes is 2, and nothing says where node 0 is; give --master-addr HOST on all nodes");
  EXPECT_EQ(error({.nnodes = 2, .master_addr = "a:b"}),
            "--master-addr is \"a:b\"; expected HOST, or HOST:PORT");
  EXPECT_EQ(error({.nnodes = 2, .master_addr = ":80"}),
            "--master-addr names no host; expected HOST, or HOST:PORT");
  EXPECT_EQ(error({.nnodes = 2, .master_addr = "a:0"}),
            "--master-port is 0; it must be from 1 to 65535");
}

}  // namespace
}  // namespace glint
