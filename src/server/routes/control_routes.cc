// The routes that change the server: caches, weights, pauses, aborts, profiles.
#include <climits>

#include "base/str.h"
#include "server/dialects/sampling_fields.h"
#include "server/server_core.h"

namespace glint {
namespace {

void answer(const Status& status, const char* done, Reply reply) {
  if (!status.ok()) return reply.fail(api_error(status.error()));
  reply.respond(Json::Object{{"success", true}, {"message", done}});
}

struct WeightsRequest {
  std::string path, version, checksum;
  bool abort_all = false;
};

void read_weights(RequestReader& r, WeightsRequest& request) {
  r.text("model_path", request.path);
  r.require("model_path");
  if (request.path.size() >= PATH_MAX)
    r.fail("model_path",
           str("model_path has ", request.path.size(), " bytes; a path has less than ", PATH_MAX));
  read_id(r, "weight_version", request.version);
  r.text("checksum", request.checksum);
  r.boolean("abort_all_requests", request.abort_all);
  bool flush = true;
  r.boolean("flush_cache", flush);
  if (!flush)
    r.fail("flush_cache",
           "flush_cache is false, but keys of other weights are never read; leave it out");
}

// Files that are not there yet on this machine, or not all of them, are no weights to answer with.
Status check_weights(const ServerCore& core, const WeightsRequest& request,
                     const std::string& dir) {
  if (request.checksum.empty()) return Ok{};
  if (!core.config.trainers.checksum_of) return invalid("this server knows no checksum of weights");
  GLINT_TRY(const std::string found, core.config.trainers.checksum_of(dir));
  if (found == request.checksum) return Ok{};
  return invalid(str("the weights in ", dir, " have the checksum ", found, ", and ",
                     request.checksum,
                     " was expected: these are not all of the files that were written"));
}

// New weights make what the cache holds untrue; running requests start again from their tokens.
void update_weights(ServerCore& core, const WeightsRequest& request, Reply reply) {
  std::string dir = request.path;
  if (core.config.trainers.find_model) {
    Result<std::string> found = core.config.trainers.find_model(request.path);
    if (!found.ok()) return reply.fail(api_error(found.error()));
    dir = std::move(found).value();
  }
  if (Status status = check_weights(core, request, dir); !status.ok())
    return reply.fail(api_error(status.error()));
  if (request.abort_all) core.generations->abort("");
  Guarded<std::string>& weights = core.generations->weights();
  // An answer that ends meanwhile may be of both.
  const std::string before = weights.load(),
                    after = request.version.empty() ? dir : request.version;
  weights.store("changing");
  const Status status = core.generations->engine().control(
      {.kind = ExecutorCommand::Kind::kUpdateWeights, .path = std::move(dir)});
  weights.store(status.ok() ? after : before);
  if (!status.ok()) return reply.fail(api_error(status.error()));
  Json out = Json::Object{
      {"success", true}, {"message", "the weights were replaced"}, {"weight_version", after}};
  if (!request.checksum.empty()) out.set("checksum", request.checksum);
  reply.respond(out);
}

struct AbortRequest {
  std::string rid;
  bool all = false;
};

void read_abort(RequestReader& r, AbortRequest& request) {
  r.text("rid", request.rid);
  r.text("request_id", request.rid);
  r.boolean("abort_all", request.all);
  if (r.reading() && r.ok() && request.rid.empty() && !request.all)
    r.fail("rid", "rid is missing; name a request or set abort_all");
}

void abort_request(ServerCore& core, const AbortRequest& request, Reply reply) {
  const int count = core.generations->abort(request.all ? "" : request.rid);
  reply.respond(Json::Object{{"success", true}, {"aborted", count}});
}

struct ProfileRequest {
  std::string output_dir;
};

void read_profile(RequestReader& r, ProfileRequest& request) {
  r.text("output_dir", request.output_dir);
}

// Only --profile-dir says where profiles go: a request could name any file of the server's user.
Status check_profile_dir(const ServerCore& core, const ProfileRequest& request) {
  const std::string& dir = core.config.profile_dir;
  if (dir.empty())
    return invalid("profiles have no folder; start the server with --profile-dir DIR");
  if (!request.output_dir.empty() && request.output_dir != dir)
    return invalid(str("output_dir is ", quoted(request.output_dir), "; profiles go to ",
                       quoted_path(dir), ", which --profile-dir names: leave it out"));
  return Ok{};
}

// A new file with each profile: nothing is replaced.
void start_profile(ServerCore& core, const ProfileRequest& request, Reply reply) {
  const std::string path = str(core.config.profile_dir, "/glint-", core.ids.hex(12), ".json");
  Status status = check_profile_dir(core, request);
  if (status.ok())
    status = core.generations->engine().control(
        {.kind = ExecutorCommand::Kind::kStartProfile, .path = path});
  if (!status.ok()) return reply.fail(api_error(status.error()));
  reply.respond(Json::Object{{"success", true}, {"message", "profiling began"}, {"profile", path}});
}

void stop_profile(ServerCore& core, Reply reply) {
  answer(core.generations->engine().control({.kind = ExecutorCommand::Kind::kStopProfile}),
         "profiling ended", std::move(reply));
}

void flush_cache(ServerCore& core, Reply reply) {
  answer(core.generations->engine().flush_cache(), "the cache is empty", std::move(reply));
}

struct PauseRequest {
  std::string mode = "abort";
};

void read_pause(RequestReader& r, PauseRequest& request) {
  r.one_of("mode", request.mode, {"abort", "in_place", "retract"});
}

// As SGLang's. Both of the other modes keep the cache until it is flushed.
void pause_generation(ServerCore& core, const PauseRequest& request, Reply reply) {
  core.generations->engine().pause();
  if (request.mode == "abort") core.generations->abort_all();
  answer(Ok{}, "paused", std::move(reply));
}

void continue_generation(ServerCore& core, Reply reply) {
  core.generations->engine().resume();
  answer(Ok{}, "running", std::move(reply));
}

// Appends routes that wait for the engine, each other's turn included: on a thread of their own.
class ControlRoutes {
 public:
  ControlRoutes(ServerCore& core, TaskThreads& thread, std::vector<Route>& routes)
      : core_(core), thread_(thread), routes_(routes) {}

  // Without a body.
  void add(const char* path, const char* summary, void (*run)(ServerCore&, Reply),
           const char* method = "POST") {
    append({.method = method, .path = path, .summary = summary}, true,
           [run, &core = core_](const Json&, Reply reply) { run(core, std::move(reply)); });
  }

  // By POST, with a body that `read` reads; without `in_turn` on the request thread.
  template <class Body>
  void add(const char* path, const char* summary, void (*read)(RequestReader&, Body&),
           void (*run)(ServerCore&, const Body&, Reply), bool in_turn = true) {
    const auto describe = [read](RequestReader& r) {
      Body scratch;
      read(r, scratch);
    };
    append({.method = "POST", .path = path, .summary = summary, .describe = describe}, in_turn,
           [read, run, &core = core_](const Json& json, Reply reply) {
             Body body;
             const ApiStatus status = read_body(json, [&](RequestReader& r) { read(r, body); });
             if (!status.ok()) return reply.fail(status.error());
             run(core, body, std::move(reply));
           });
  }

 private:
  void append(Route route, bool in_turn, std::function<void(const Json&, Reply)> run) {
    route.access = RouteAccess::kAdmin;
    route.handle = [run = std::move(run), in_turn, &thread = thread_](
                       const HttpRequest&, const Json& json, Reply reply) {
      if (!in_turn) return run(json, std::move(reply));
      thread.post([run, json, reply]() mutable { reply.guard([&] { run(json, reply); }); });
    };
    routes_.push_back(std::move(route));
  }

  ServerCore& core_;
  TaskThreads& thread_;
  std::vector<Route>& routes_;
};

}  // namespace

void add_control_routes(ServerCore& core, TaskThreads& control_thread, std::vector<Route>& routes) {
  ControlRoutes control(core, control_thread, routes);
  for (const char* path : {"/flush_cache", "/reset_prefix_cache"})
    for (const char* method : {"POST", "GET"})  // trainers ask by GET
      control.add(path, "Forgets cached prefixes; fails while requests run that are not paused.",
                  flush_cache, method);
  control.add(
      "/pause_generation",
      "Cancels all requests, or with another mode stops them where they are; new ones wait.",
      read_pause, pause_generation);
  control.add("/continue_generation", "Ends a pause.", continue_generation);
  routes.back().while_draining = true;
  // Waits for nothing; the turn of new weights takes minutes.
  control.add("/abort_request", "Cancels a request by its id, or all.", read_abort, abort_request,
              false);
  routes.back().while_draining = true;
  control.add("/update_weights_from_disk",
              "Replaces the weights by those of a checkpoint of the same shape.", read_weights,
              update_weights);
  control.add("/start_profile", "Begins a profile of the steps.", read_profile, start_profile);
  control.add("/stop_profile", "Ends a profile and writes it.", stop_profile);
}

}  // namespace glint
