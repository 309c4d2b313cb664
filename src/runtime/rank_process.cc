#include "runtime/rank_process.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "base/ending_signals.h"
#include "base/str.h"
#include "runtime/loaded_model.h"
#include "runtime/rank_peers.h"
#include "runtime/ranks.h"

namespace glint {
namespace {

// The way back of rank_start().
ModelOptions model_options(const Json& start) {
  const auto number = [&](const char* name) {
    return static_cast<int>(start.find(name)->as_int());
  };
  ModelOptions m;
  m.dir = start.find("dir")->as_string();
  if (const int release = number("dummy"); release >= 0) m.dummy = static_cast<Release>(release);
  m.numbers.activations = static_cast<DType>(number("activations"));
  m.numbers.latent = static_cast<LatentFormat>(number("latent"));
  m.numbers.index = static_cast<IndexFormat>(number("index"));
  m.with_mtp = start.find("with_mtp")->as_bool();
  m.packing = static_cast<Packing>(number("packing"));
  m.keep_free = start.find("keep_free")->as_int();
  m.threads = number("threads");
  m.shape = {.tp = number("tp"),
             .cp = number("cp"),
             .ep = number("ep"),
             .pp = number("pp"),
             .dp = number("dp"),
             .reduce_slices = number("reduce_slices"),
             .moves_experts = start.find("moves_experts")->as_bool(),
             .redundant_experts = number("redundant_experts")};
  m.rank = number("rank");
  return m;
}

// Where the leader, or another rank, is gone, the next generation may find all there.
int exit_code_of(const Error& end) { return end.code == ErrorCode::kUnavailable ? 0 : 2; }

Status run_rank(RankLeader& leader, const Json& start, const std::string& build,
                const std::function<Result<std::unique_ptr<Backend>>(const Json&, int)>& make) {
  const Json* const theirs = start.find("build");
  if (!theirs || *theirs != Json(build)) {
    return invalid(str("this process is glint ", build, ", and its leader another build"));
  }
  ModelOptions options = model_options(start);
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
    GLINT_TRY(const RankPass pass, read_pass(bytes));
    const Status done = model->follow(pass);
    if (!is_answered(pass.kind)) continue;
    Json answer = words_of(done);
    answer.set("checkpoint", model->fingerprint());
    answer.set("way", model->way_between_ranks());  // groups find it with the first of these passes
    GLINT_TRY_STATUS(leader.tell(answer));
  }
}

}  // namespace

Json rank_start(const ModelOptions& m, int rank, const std::string& build, const Json& backend,
                const std::string& memory) {
  return Json::Object{{"build", build},
                      {"backend", backend},
                      {"memory", memory},
                      {"rank", rank},
                      {"tp", m.shape.tp},
                      {"cp", m.shape.cp},
                      {"ep", m.shape.ep},
                      {"pp", m.shape.pp},
                      {"dp", m.shape.dp},
                      {"reduce_slices", m.shape.reduce_slices},
                      {"moves_experts", m.shape.moves_experts},
                      {"redundant_experts", m.shape.redundant_experts},
                      {"dir", m.dir},
                      {"dummy", m.dummy ? static_cast<int>(*m.dummy) : -1},
                      {"activations", static_cast<int>(m.numbers.activations)},
                      {"latent", static_cast<int>(m.numbers.latent)},
                      {"index", static_cast<int>(m.numbers.index)},
                      {"with_mtp", m.with_mtp},
                      {"packing", static_cast<int>(m.packing)},
                      {"keep_free", m.keep_free.value_or(0)},
                      {"threads", m.threads}};
}

bool is_answered(RankPass::Kind kind) {
  return kind == RankPass::Kind::kReservePages || kind == RankPass::Kind::kReserveSteps ||
         kind == RankPass::Kind::kUpdateWeights || kind == RankPass::Kind::kRecordGraphs;
}

int run_rank_process(
    const std::string& build,
    const std::function<Result<std::unique_ptr<Backend>>(const Json&, int)>& make_backend) {
  // Signals that end a server are its leader's to hear.
  ignore_ending_signals();
  if (::fcntl(kRankStreamFd, F_SETFD, FD_CLOEXEC) != 0) return 2;
  RankLeader leader(RankStream{OwnedFd(kRankStreamFd)});
  const Result<Json> start = leader.hear_words();
  if (!start.ok()) return exit_code_of(start.error());
  const Status end = run_rank(leader, start.value(), build, make_backend);
  (void)leader.tell(words_of(end));  // the leader may be gone
  ::_exit(exit_code_of(end.error()));
}

}  // namespace glint
