#include "cli/served_ranks.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/backends.h"
#include "cli/file_signals.h"
#include "cli/interrupt.h"
#include "runtime/ranks.h"

namespace glint {

Result<std::string> program_build() {
  static const Result<std::string> build = []() -> Result<std::string> {
    GLINT_TRY(const MappedFile program, MappedFile::open(kProgram));
    const auto* const bytes = reinterpret_cast<const char*>(program.bytes().data());
    return str(GLINT_VERSION, " (program ", hex_of(fnv1a({bytes, program.bytes().size()})), ")");
  }();
  return build;
}

namespace {

constexpr int kLauncherLookMilliseconds = 100;

// The nearest ancestor that was started without the variable: scripts may stand between.
pid_t process_without(const std::string& variable) {
  for (pid_t pid = ::getppid();;) {
    const Result<std::string> variables = read_file(str("/proc/", pid, "/environ"));
    const Result<std::string> stat = read_file(str("/proc/", pid, "/stat"));
    if (!variables.ok() || !stat.ok()) return pid;
    const std::string all = '\0' + variables.value();
    if (all.find('\0' + variable + '=') == all.npos) return pid;
    const std::size_t end = stat.value().rfind(')');
    pid = std::atoi(stat.value().c_str() + end + 4);
  }
}

}  // namespace

std::jthread watch_launcher(const std::optional<RankEnv>& launch) {
  if (!launch || launch->mark.empty()) return {};
  const pid_t pid = process_without(launch->mark);
  OwnedFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process) return {};
  const std::string name = str(launch->launcher, " (process ", pid, ")");
  return std::jthread([process = std::move(process), name](const std::stop_token& stop) {
    pollfd ended = {.fd = process.get(), .events = POLLIN, .revents = 0};
    while (::poll(&ended, 1, kLauncherLookMilliseconds) <= 0) {
      if (stop.stop_requested()) return;
    }
    log(LogLevel::kWarning, name + ", which has started this rank, has ended; so does the rank");
    ::kill(::getpid(), SIGTERM);
  });
}

Result<RankHello> hello_of(const RankEnv& env) {
  GLINT_TRY(std::string build, program_build());
  return RankHello{.build = std::move(build),
                   .launch = env.launch,
                   .machine = this_machine(),
                   .rank = env.rank,
                   .size = env.size,
                   .asked = env.asked};
}

Result<AgentOptions> agent_of(const RankEnv& env) {
  GLINT_TRY(RankHello self, hello_of(env));
  return AgentOptions{.self = std::move(self), .leader = env.leader, .port = env.port};
}

namespace {

Error wrong_number(const RankEnv& env, const std::string& asked) {
  return invalid(str(env.describe(), ", and ", asked,
                     "; start as many as there are ranks, or a divisor of them",
                     env.launcher == kNodes ? "" : ", or unset its variables"));
}

}  // namespace

Result<std::optional<RankEnv>> launched_rank(int ranks, const std::string& asked, const Cli& cli) {
  GLINT_TRY(std::optional<RankEnv> env, read_rank_env(cli.environment.all, ranks));
  if (!env || env->size == ranks) return env;
  return invalid(str(env->describe(), ", and ", asked,
                     "; start as many as there are ranks, or unset its variables"));
}

Result<std::optional<RankEnv>> launched_process(const LayoutOptions& layout,
                                                const NodeOptions& nodes, const Cli& cli) {
  const MeshShape asked = layout.shape();
  const int dp = asked.dp, ranks = asked.num_ranks();
  GLINT_TRY(std::optional<RankEnv> env, read_nodes(nodes));
  if (!env && ranks > 1) {
    GLINT_TRY(env, read_rank_env(cli.environment.all, ranks));
  }
  if (!env || ranks % env->size == 0) return env;
  return wrong_number(*env, str("--tp is ", layout.tp, dp > 1 ? str(", in ", dp, " replicas") : "",
                                layout.pp > 1 ? str(", in ", layout.pp, " stages") : ""));
}

Result<FittedShape> fit_launch(const LayoutOptions& layout, const ModelConfig& config, int threads,
                               bool is_whole, std::optional<RankEnv>& launch) {
  const char* const whole = "synthetic weights are made whole, on one rank";
  int most = is_whole ? 1 : threads;
  if (launch && !is_whole) {
    // A launcher of every rank has chosen their number.
    most = launch->size == layout.shape().num_ranks()
               ? std::max(threads, launch->size)
               : threads * (launch->size / launch->local_size);
  }
  GLINT_TRY(FittedShape fitted, fit_shape(layout, config, most));
  if (is_whole && !fitted.note.empty()) fitted.note = whole;
  if (!launch) return fitted;
  const int ranks = fitted.shape.num_ranks();
  if (ranks % launch->size != 0) return wrong_number(*launch, fitted.note);
  launch->deal_out(ranks);
  fitted.here = launch->local_size;
  return fitted;
}

Status follow_server(const RankEnv& env) {
  GLINT_LOG(kInfo, env.describe_ranks());
  std::vector<AgentOptions> agents;
  for (RankEnv one = env; one.rank < env.rank + env.count; ++one.rank) {
    GLINT_TRY(agents.emplace_back(), agent_of(one));
    agents.back().command = {kProgram, kRankProcessArgument};
  }
  return run_rank_agents(agents);
}

Result<std::unique_ptr<RankProcesses>> start_ranks(const BackendOptions& options,
                                                   const ModelOptions& resolved, int here,
                                                   const std::optional<RankEnv>& launch,
                                                   std::function<void()> before_end) {
  std::unique_ptr<RankGate> gate;
  ModelOptions model = resolved;
  if (launch) {
    GLINT_TRY(RankHello self, hello_of(*launch));
    GLINT_TRY(gate, RankGate::open(launch->port, std::move(self), launch->count));
    model.dir = std::filesystem::absolute(model.dir);
  }
  return RankProcesses::start(
      {.command = {kProgram, kRankProcessArgument},
       .build = GLINT_VERSION,
       .model = std::move(model),
       .backend = Json::Object{{"name", resolve_backend(options.name)},
                               {"cpu_isa", options.cpu_isa},
                               {"threads", options.threads},
                               {"windows", options.use_windows},
                               {"here", here}},
       .gate = std::move(gate),
       .on_give_up = [before_end = std::move(before_end)](const std::string& report) {
         log(LogLevel::kError, report + "; the program ends");
         std::thread([before_end] {
           before_end();
           end_program(kRanksLostExitCode);
         }).detach();
       }});
}

int run_rank() {
  handle_file_signals();
  return run_rank_process(GLINT_VERSION, [](const Json& backend, int rank) {
    const auto number = [&](const char* name) {
      return static_cast<int>(backend.find(name)->as_int());
    };
    const std::string& name = backend.find("name")->as_string();
    keep_to_memory(name, rank, number("here"));
    return make_backend({.name = name,
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
