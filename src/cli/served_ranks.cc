#include "cli/served_ranks.h"

#include <unistd.h>

#include "base/log.h"
#include "cli/backends.h"
#include "cli/file_signals.h"
#include "cli/interrupt.h"
#include "runtime/ranks.h"

namespace glint {
namespace {

constexpr int kRanksLostExitCode = 3;

}  // namespace

Result<std::unique_ptr<RankProcesses>> start_ranks(const RunOptions& options,
                                                   const ModelOptions& resolved) {
  return RankProcesses::start({.command = {"/proc/self/exe", kRankProcessArgument},
                               .build = GLINT_VERSION,
                               .model = resolved,
                               .backend = Json::Object{{"name", resolve_backend(options.backend)},
                                                       {"cpu_isa", options.cpu_isa},
                                                       {"threads", resolved.threads}},
                               .on_give_up = [](const std::string& report) {
                                 log(LogLevel::kError, report + "; the program ends");
                                 end_program(kRanksLostExitCode);
                               }});
}

int run_rank() {
  handle_file_signals();
  return run_rank_process(GLINT_VERSION, [](const Json& backend) {
    return make_backend({.name = backend.find("name")->as_string(),
                         .cpu_isa = backend.find("cpu_isa")->as_string(),
                         .threads = static_cast<int>(backend.find("threads")->as_int())});
  });
}

Json describe_ranks(const RankProcesses* ranks, LoadedModel& model) {
  if (ranks) return ranks->describe();
  Json one = describe_rank(model);
  one.set("pid", static_cast<std::int64_t>(::getpid()));
  one.set("collectives", Json::Object{{"tp", Json::Object{}}});
  return Json::Array{std::move(one)};
}

}  // namespace glint
