#include "runtime/rank_process.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <thread>
#include <tuple>

#include "base/base64.h"
#include "base/bytes.h"
#include "base/ending_signals.h"
#include "base/str.h"
#include "runtime/loaded_model.h"
#include "runtime/rank_peers.h"
#include "runtime/ranks.h"

namespace glint {
namespace {

// The options that a rank's process takes, in the order in which the first message has them.
template <class Options>
auto fields(Options& m) {
  auto& s = m.shape;
  return std::tie(m.dir, m.dummy, m.numbers.activations, m.numbers.latent, m.numbers.index,
                  m.with_mtp, m.packing, m.keep_free, m.threads, m.rank, s.tp, s.cp, s.ep, s.pp,
                  s.last_stage_layers, s.dp, s.reduce_slices, s.whole_experts, s.moves_experts,
                  s.redundant_experts);
}

// Where the leader, or another rank, is gone, the next generation may find all there.
int exit_code_of(const Error& end) { return end.code == ErrorCode::kUnavailable ? 0 : 2; }

Status run_rank(LeaderConnection& leader, const Json& start, const std::string& build,
                const std::function<Result<std::unique_ptr<Backend>>(const Json&, int)>& make) {
  const Json* const theirs = start.find("build");
  if (!theirs || *theirs != Json(build)) {
    return invalid(str("this process is glint ", build, ", and its leader another build"));
  }
  ModelOptions options;
  const std::string bytes = from_base64(start.find("options")->as_string()).value_or("");
  ByteReader read(bytes);
  std::apply(read, fields(options));
  if (!read.is_whole()) return invalid("the options of a rank are cut short");
  const MeshShape& shape = options.shape;
  std::thread([&leader] {
    leader.show_life();
    ::_exit(0);  // it ends with its leader
  }).detach();
  // Nothing of this generation is of use any more: the leader sees that the process has ended.
  GLINT_TRY(const RankMembership member,
            RankMembership::join(leader, start.find("memory")->as_string(), shape, options.rank,
                                 [](int) { ::_exit(0); }));
  options.mesh = member.mesh();
  GLINT_TRY(std::unique_ptr<Backend> backend, make(*start.find("backend"), options.rank));
  GLINT_TRY(const std::unique_ptr<LoadedModel> model,
            LoadedModel::load(options, std::move(backend)));
  Json about = describe_rank(*model);
  about.set("pid", static_cast<std::int64_t>(::getpid()));
  GLINT_TRY_STATUS(
      leader.tell(Json::Object{{"checkpoint", model->fingerprint()}, {"about", std::move(about)}}));
  for (;;) {
    GLINT_TRY(const std::string bytes, leader.hear());
    GLINT_TRY(const RankCommand command, read_command(bytes));
    const Status done = model->follow(command);
    if (!is_answered(command.kind)) continue;
    Json answer = outcome_message(done);
    answer.set("checkpoint", model->fingerprint());
    answer.set("way",
               model->way_between_ranks());  // groups find it with the first of these commands
    GLINT_TRY_STATUS(leader.tell(answer));
  }
}

}  // namespace

Json rank_start(const ModelOptions& model, const std::string& build, const Json& backend,
                const std::string& memory) {
  ByteWriter options;
  std::apply(options, fields(model));
  return Json::Object{{"build", build},
                      {"backend", backend},
                      {"memory", memory},
                      {"options", to_base64(options.take())}};
}

bool is_answered(RankCommand::Kind kind) {
  return kind == RankCommand::Kind::kReservePages || kind == RankCommand::Kind::kReserveSteps ||
         kind == RankCommand::Kind::kUpdateWeights || kind == RankCommand::Kind::kRecordGraphs;
}

int run_rank_process(
    const std::string& build,
    const std::function<Result<std::unique_ptr<Backend>>(const Json&, int)>& make_backend) {
  // Signals that end a server are its leader's to hear.
  ignore_ending_signals();
  if (::fcntl(kRankStreamFd, F_SETFD, FD_CLOEXEC) != 0) return 2;
  LeaderConnection leader(RankStream{OwnedFd(kRankStreamFd)});
  const Result<Json> start = leader.hear_message();
  if (!start.ok()) return exit_code_of(start.error());
  const Status end = run_rank(leader, start.value(), build, make_backend);
  (void)leader.tell(outcome_message(end));  // the leader may be gone
  ::_exit(exit_code_of(end.error()));
}

}  // namespace glint
