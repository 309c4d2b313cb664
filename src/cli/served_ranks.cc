#include "cli/served_ranks.h"

#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/backends.h"
#include "cli/file_signals.h"
#include "cli/interrupt.h"
#include "runtime/ranks.h"

namespace glint {

// Machines may have different programs of one version: the file tells them apart.
Result<RankHello> hello_of(const RankEnv& env) {
  GLINT_TRY(const MappedFile program, MappedFile::open(kProgram));
  const auto* const bytes = reinterpret_cast<const char*>(program.bytes().data());
  return RankHello{
      .build = formatted("%s (program %016llx)", GLINT_VERSION,
                         static_cast<unsigned long long>(fnv1a({bytes, program.bytes().size()}))),
      .launch = env.launch,
      .machine = this_machine(),
      .rank = env.rank,
      .size = env.size};
}

Result<AgentOptions> agent_of(const RankEnv& env) {
  GLINT_TRY(RankHello self, hello_of(env));
  GLINT_LOG(kInfo, str("rank ", env.rank, " of ", env.size, ", by ", env.launcher,
                       "; the first is at ", env.leader, ":", env.port));
  return AgentOptions{.self = std::move(self), .leader = env.leader, .port = env.port};
}

Result<std::optional<RankEnv>> launched_rank(int ranks, const std::string& asked, const Cli& cli) {
  GLINT_TRY(std::optional<RankEnv> env, read_rank_env(cli.environment.launcher, ranks));
  if (!env || env->size == ranks) return env;
  return invalid(str(env->launcher, " has started ", env->size, " processes, and ", asked,
                     "; start as many as there are ranks, or unset its variables"));
}

Result<std::optional<RankEnv>> launched_rank(const RankOptions& options, const ShardOptions& shards,
                                             const Cli& cli) {
  const int dp = num_shards(options, shards), ranks = options.tp * dp * options.pp;
  if (ranks == 1) return std::nullopt;
  return launched_rank(
      ranks,
      str("--tp is ", options.tp, dp > 1 ? str(", in ", dp, " shards") : std::string(),
          options.pp > 1 ? str(", in ", options.pp, " stages") : std::string()),
      cli);
}

Status follow_server(const RankEnv& env) {
  GLINT_TRY(AgentOptions agent, agent_of(env));
  agent.command = {kProgram, kRankProcessArgument};
  return run_rank_agent(agent);
}

Result<std::unique_ptr<RankProcesses>> start_ranks(const BackendOptions& options,
                                                   const ModelOptions& resolved, int here,
                                                   const std::optional<RankEnv>& launch) {
  std::unique_ptr<RankGate> gate;
  ModelOptions model = resolved;
  if (launch) {
    GLINT_TRY(RankHello self, hello_of(*launch));
    GLINT_TRY(gate, RankGate::open(launch->port, std::move(self)));
    model.dir = std::filesystem::absolute(model.dir);
  }
  return RankProcesses::start({.command = {kProgram, kRankProcessArgument},
                               .build = GLINT_VERSION,
                               .model = std::move(model),
                               .backend = Json::Object{{"name", resolve_backend(options.name)},
                                                       {"cpu_isa", options.cpu_isa},
                                                       {"threads", options.threads},
                                                       {"windows", options.use_windows},
                                                       {"here", here}},
                               .gate = std::move(gate),
                               .on_give_up = [](const std::string& report) {
                                 log(LogLevel::kError, report + "; the program ends");
                                 end_program(kRanksLostExitCode);
                               }});
}

int run_rank() {
  handle_file_signals();
  return run_rank_process(GLINT_VERSION, [](const Json& backend, int rank) {
    const auto number = [&](const char* name) {
      return static_cast<int>(backend.find(name)->as_int());
    };
    return make_backend({.name = backend.find("name")->as_string(),
                         .cpu_isa = backend.find("cpu_isa")->as_string(),
                         .threads = number("threads"),
                         .device = device_of_rank(rank, number("here")),
                         .use_windows = backend.find("windows")->as_bool()});
  });
}

Json describe_ranks(const RankProcesses* ranks, LoadedModel& model) {
  if (ranks) return ranks->describe();
  Json one = describe_rank(model);
  one.set("pid", static_cast<std::int64_t>(::getpid()));
  one.set("collectives", no_traffic());
  return Json::Array{std::move(one)};
}

}  // namespace glint
