#include "runtime/rank_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "base/str.h"
#include "comm/shared_comm.h"
#include "runtime/rank_wire.h"
#include "runtime/ranks.h"

namespace glint {
namespace {

// The way back of rank_start().
ModelOptions model_options(const Json& start, Comm& tp) {
  const auto number = [&](const char* name) {
    return static_cast<int>(start.find(name)->as_int());
  };
  ModelOptions m;
  m.dir = start.find("dir")->as_string();
  m.activations = static_cast<DType>(number("activations"));
  m.latent = static_cast<LatentFormat>(number("latent"));
  m.index = static_cast<IndexFormat>(number("index"));
  m.with_mtp = start.find("with_mtp")->as_bool();
  m.packing = static_cast<Packing>(number("packing"));
  m.keep_free = start.find("keep_free")->as_int();
  m.threads = number("threads");
  m.shape = {.tp = number("tp"), .reduce_slices = number("reduce_slices")};
  m.rank = number("rank");
  m.mesh.tp = &tp;
  return m;
}

std::string answer_of(const Status& status) {
  if (status.ok()) return "{}";
  return dump_json(Json::Object{{"error", status.error().message},
                                {"code", static_cast<int>(status.error().code)}});
}

// Shows that the process lives, and ends it with its leader.
void live(const SharedGroup& group, int rank) {
  pollfd stream = {.fd = kRankStreamFd, .events = POLLRDHUP, .revents = 0};
  for (;;) {
    ++group.beat(rank);
    if (::poll(&stream, 1, kRankBeatMilliseconds) > 0) ::_exit(0);
  }
}

Status run_rank(RankStream& stream, const Json& start, const std::string& build,
                const std::function<Result<std::unique_ptr<Ops>>(const Json&)>& make_backend) {
  const Json* const theirs = start.find("build");
  if (!theirs || *theirs != Json(build)) {
    return invalid(str("this process is glint ", build, ", and its leader another build"));
  }
  const int rank = static_cast<int>(start.find("rank")->as_int());
  GLINT_TRY(const SharedGroup group,
            SharedGroup::map(static_cast<int>(start.find("tp")->as_int()), kRankMemoryFd));
  std::thread([group, rank] { live(group, rank); }).detach();
  const std::unique_ptr<Comm> comm = make_shared_comm(group, rank);
  CountingComm counting(*comm, &group.counters(rank));
  GLINT_TRY(std::unique_ptr<Ops> ops, make_backend(*start.find("backend")));
  GLINT_TRY(const std::unique_ptr<LoadedModel> model,
            LoadedModel::load(model_options(start, counting), std::move(ops)));
  Json about = describe_rank(*model);
  about.set("pid", static_cast<std::int64_t>(::getpid()));
  GLINT_TRY_STATUS(stream.send(
      dump_json(Json::Object{{"checkpoint", model->fingerprint()}, {"about", std::move(about)}})));
  for (;;) {
    GLINT_TRY(const std::string bytes, stream.receive());
    GLINT_TRY(const RankPass pass, read_pass(bytes));
    const Status done = model->follow(pass);
    if (!is_answered(pass.kind)) continue;
    GLINT_TRY_STATUS(stream.send(answer_of(done)));
  }
}

}  // namespace

Json rank_start(const ModelOptions& m, int rank, const std::string& build, const Json& backend) {
  return Json::Object{{"build", build},
                      {"backend", backend},
                      {"rank", rank},
                      {"tp", m.shape.tp},
                      {"reduce_slices", m.shape.reduce_slices},
                      {"dir", m.dir},
                      {"activations", static_cast<int>(m.activations)},
                      {"latent", static_cast<int>(m.latent)},
                      {"index", static_cast<int>(m.index)},
                      {"with_mtp", m.with_mtp},
                      {"packing", static_cast<int>(m.packing)},
                      {"keep_free", m.keep_free.value_or(0)},
                      {"threads", m.threads}};
}

bool is_answered(RankPass::Kind kind) {
  return kind == RankPass::Kind::kReservePages || kind == RankPass::Kind::kReserveSteps ||
         kind == RankPass::Kind::kUpdateWeights;
}

int run_rank_process(const std::string& build,
                     const std::function<Result<std::unique_ptr<Ops>>(const Json&)>& make_backend) {
  // Signals that end a server are its leader's to hear.
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) ::signal(number, SIG_IGN);
  if (::fcntl(kRankStreamFd, F_SETFD, FD_CLOEXEC) != 0) return 2;
  RankStream stream{OwnedFd(kRankStreamFd)};
  const Result<std::string> text = stream.receive();
  if (!text.ok()) return 2;
  const Result<Json> start = parse_json(text.value());
  if (!start.ok()) return 2;
  const Status end = run_rank(stream, start.value(), build, make_backend);
  (void)stream.send(answer_of(end));  // the leader may be gone
  ::_exit(end.error().code == ErrorCode::kUnavailable ? 0 : 2);
}

}  // namespace glint
