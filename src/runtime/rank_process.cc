#include "runtime/rank_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/str.h"
#include "comm/socket_comm.h"
#include "runtime/rank_memory.h"
#include "runtime/rank_wire.h"
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
  m.activations = static_cast<DType>(number("activations"));
  m.latent = static_cast<LatentFormat>(number("latent"));
  m.index = static_cast<IndexFormat>(number("index"));
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

Json answer_of(const Status& status) {
  if (status.ok()) return Json::Object{};
  return Json::Object{{"error", status.error().message},
                      {"code", static_cast<int>(status.error().code)}};
}

// The leader, to whom several threads speak.
class Leader {
 public:
  explicit Leader(RankStream stream) : stream_(std::move(stream)) {}

  Status tell(const Json& what) {
    const std::lock_guard lock(mutex_);
    return stream_.send(dump_json(what));
  }
  Result<std::string> hear() { return stream_.receive(); }
  std::string address() const { return peer_address(stream_.fd()); }
  // For collectives that the leader does not see.
  CommCounters& counters() { return counters_; }
  // Shows that the process lives, and ends it with its leader.
  void live() {
    pollfd stream = {.fd = stream_.fd(), .events = POLLRDHUP, .revents = 0};
    while (tell(Json::Object{{kBeat, describe(counters_.uses())}}).ok() &&
           ::poll(&stream, 1, kRankBeatMilliseconds) == 0) {
    }
    ::_exit(0);
  }

 private:
  RankStream stream_;
  std::mutex mutex_;
  CommCounters counters_;
};

// A rank's place in its groups, in memory or over sockets.
struct Membership {
  std::optional<RankMemory::Comms> shared = {};
  std::unique_ptr<Comm> sockets = {};
  std::unique_ptr<CountingComm> counting = {};
  MeshShape shape = {};

  Mesh mesh() const { return shared ? shared->mesh() : mesh_of_all(shape, *counting); }
};

Result<Membership> join_memory(const std::string& path, const MeshShape& shape, int rank) {
  const OwnedFd memory(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!memory) {
    return Error{ErrorCode::kUnavailable,
                 str("cannot open the ranks' memory ", path, ": ", std::strerror(errno))};
  }
  GLINT_TRY(const RankMemory groups, RankMemory::map(shape, memory.get()));
  Membership member;
  member.shared.emplace(groups, rank);
  return member;
}

Result<Membership> join_sockets(Leader& leader, const MeshShape& shape, int rank) {
  GLINT_TRY(const OwnedFd listener, listen_tcp(0));
  GLINT_TRY_STATUS(leader.tell(Json::Object{{"port", port_of(listener)}}));
  GLINT_TRY(const std::string text, leader.hear());
  GLINT_TRY(const Json said, parse_json(text));
  RankMeeting meeting;
  for (const Json& address : said.find("ranks")->as_array()) {
    meeting.ranks.push_back(
        {address.find("host")->as_string(), static_cast<int>(address.find("port")->as_int())});
  }
  meeting.ranks.front().host = leader.address();
  const std::string& group = said.find("group")->as_string();
  std::from_chars(group.data(), group.data() + group.size(), meeting.group);
  GLINT_TRY(std::vector<OwnedFd> peers, connect_ranks(listener, rank, meeting.ranks, meeting.group,
                                                      seconds_from_now(kRankMeetingSeconds)));
  // Nothing of this generation is of use any more: the leader sees that the process has ended.
  auto comm = std::make_unique<SocketComm>(rank, shape.num_ranks(), [](int) { ::_exit(0); });
  comm->connect(std::move(peers));
  auto counting = std::make_unique<CountingComm>(*comm, &leader.counters());
  return Membership{.sockets = std::move(comm), .counting = std::move(counting), .shape = shape};
}

Status run_rank(Leader& leader, const Json& start, const std::string& build,
                const std::function<Result<std::unique_ptr<Backend>>(const Json&, int)>& make) {
  const Json* const theirs = start.find("build");
  if (!theirs || *theirs != Json(build)) {
    return invalid(str("this process is glint ", build, ", and its leader another build"));
  }
  ModelOptions options = model_options(start);
  const MeshShape& shape = options.shape;
  std::thread([&leader] { leader.live(); }).detach();
  const std::string& memory = start.find("memory")->as_string();
  GLINT_TRY(const Membership member, memory.empty() ? join_sockets(leader, shape, options.rank)
                                                    : join_memory(memory, shape, options.rank));
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
    Json answer = answer_of(done);
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
                      {"activations", static_cast<int>(m.activations)},
                      {"latent", static_cast<int>(m.latent)},
                      {"index", static_cast<int>(m.index)},
                      {"with_mtp", m.with_mtp},
                      {"packing", static_cast<int>(m.packing)},
                      {"keep_free", m.keep_free.value_or(0)},
                      {"threads", m.threads}};
}

Json to_json(const RankMeeting& meeting) {
  Json::Array ranks;
  for (const RankAddress& rank : meeting.ranks) {
    ranks.push_back(Json::Object{{"host", rank.host}, {"port", rank.port}});
  }
  return Json::Object{{"ranks", std::move(ranks)}, {"group", std::to_string(meeting.group)}};
}

bool is_answered(RankPass::Kind kind) {
  return kind == RankPass::Kind::kReservePages || kind == RankPass::Kind::kReserveSteps ||
         kind == RankPass::Kind::kUpdateWeights || kind == RankPass::Kind::kRecordGraphs;
}

int run_rank_process(
    const std::string& build,
    const std::function<Result<std::unique_ptr<Backend>>(const Json&, int)>& make_backend) {
  // Signals that end a server are its leader's to hear.
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) ::signal(number, SIG_IGN);
  if (::fcntl(kRankStreamFd, F_SETFD, FD_CLOEXEC) != 0) return 2;
  Leader leader(RankStream{OwnedFd(kRankStreamFd)});
  const Result<std::string> text = leader.hear();
  if (!text.ok()) return 2;
  const Result<Json> start = parse_json(text.value());
  if (!start.ok()) return 2;
  const Status end = run_rank(leader, start.value(), build, make_backend);
  (void)leader.tell(answer_of(end));  // the leader may be gone
  ::_exit(end.error().code == ErrorCode::kUnavailable ? 0 : 2);
}

}  // namespace glint
