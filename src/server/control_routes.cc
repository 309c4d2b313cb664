// The routes that change the server: caches, weights, pauses, aborts, profiles.
#include "server/server_core.h"

namespace glint {
namespace {

void answer(const Status& status, const char* done, Reply reply) {
  if (!status.ok()) return reply.fail(api_error(status.error()));
  reply.respond(Json::Object{{"success", true}, {"message", done}});
}

struct WeightsRequest {
  std::string path;
  bool abort_all = false, flush = true;
};

void read_weights(RequestReader& r, WeightsRequest& request) {
  r.text("model_path", request.path);
  r.require("model_path");
  r.boolean("abort_all_requests", request.abort_all);
  r.boolean("flush_cache", request.flush);
}

// New weights make what the cache holds untrue; running requests start again from their tokens.
void update_weights(ServerCore& core, const Json& json, Reply reply) {
  WeightsRequest request;
  std::optional<ApiError> error;
  RequestReader reader(json, "", error);
  if (!error) read_weights(reader, request);
  if (error) return reply.fail(*error);
  if (request.abort_all) core.generations->abort("");
  const Status status = core.generations->engine().control(
      {.kind = ExecutorCommand::Kind::kUpdateWeights, .path = request.path});
  answer(status, "the weights were replaced", std::move(reply));
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

void abort_request(ServerCore& core, const Json& json, Reply reply) {
  AbortRequest request;
  std::optional<ApiError> error;
  RequestReader reader(json, "", error);
  if (!error) read_abort(reader, request);
  if (error) return reply.fail(*error);
  const int count = core.generations->abort(request.all ? "" : request.rid);
  reply.respond(Json::Object{{"success", true}, {"aborted", count}});
}

struct ProfileRequest {
  std::string output_dir;
};

void read_profile(RequestReader& r, ProfileRequest& request) {
  r.text("output_dir", request.output_dir);
}

void profile(ServerCore& core, const Json& json, ExecutorCommand::Kind kind, Reply reply) {
  ProfileRequest request;
  std::optional<ApiError> error;
  RequestReader reader(json, "", error);
  if (!error) read_profile(reader, request);
  if (error) return reply.fail(*error);
  const bool start = kind == ExecutorCommand::Kind::kStartProfile;
  answer(core.generations->engine().control({.kind = kind, .path = request.output_dir}),
         start ? "profiling began" : "profiling ended", std::move(reply));
}

}  // namespace

void add_control_routes(ServerCore& core, TaskThreads& control_thread, std::vector<Route>& routes) {
  using Handler = std::function<void(const Json&, Reply)>;
  const auto add = [&](const char* path, const char* summary, Handler handler,
                       std::function<void(RequestReader&)> describe = {}) {
    // They wait for the engine, each other's turn included: on a thread of their own.
    const auto handle = [&control_thread, handler](const HttpRequest&, const Json& json,
                                                   Reply reply) {
      control_thread.post([handler, json, reply] { handler(json, reply); });
    };
    for (const char* method : {"POST", "GET"}) {
      const bool get = *method == 'G';
      if (get && describe) continue;
      routes.push_back({.method = method,
                        .path = path,
                        .summary = summary,
                        .handle = handle,
                        .describe = get ? nullptr : describe,
                        .access = RouteAccess::kAdmin});
    }
  };
  for (const char* path : {"/flush_cache", "/reset_prefix_cache"})
    add(path, "Forgets cached prefixes; fails while requests run.", [&core](const Json&, Reply r) {
      answer(core.generations->engine().flush_cache(), "the cache is empty", std::move(r));
    });
  add("/pause_generation", "Requests wait where they are.", [&core](const Json&, Reply r) {
    core.generations->engine().pause();
    answer(Ok{}, "paused", std::move(r));
  });
  add("/continue_generation", "Ends a pause.", [&core](const Json&, Reply r) {
    core.generations->engine().resume();
    answer(Ok{}, "running", std::move(r));
  });
  add(
      "/abort_request", "Cancels a request by its id, or all.",
      [&core](const Json& json, Reply r) { abort_request(core, json, std::move(r)); },
      [](RequestReader& r) {
        AbortRequest scratch;
        read_abort(r, scratch);
      });
  add(
      "/update_weights_from_disk",
      "Replaces the weights by those of a checkpoint of the same shape.",
      [&core](const Json& json, Reply r) { update_weights(core, json, std::move(r)); },
      [](RequestReader& r) {
        WeightsRequest scratch;
        read_weights(r, scratch);
      });
  const auto describe_profile = [](RequestReader& r) {
    ProfileRequest scratch;
    read_profile(r, scratch);
  };
  add(
      "/start_profile", "Begins a profile of the steps.",
      [&core](const Json& json, Reply r) {
        profile(core, json, ExecutorCommand::Kind::kStartProfile, std::move(r));
      },
      describe_profile);
  add(
      "/stop_profile", "Ends a profile.",
      [&core](const Json& json, Reply r) {
        profile(core, json, ExecutorCommand::Kind::kStopProfile, std::move(r));
      },
      describe_profile);
}

}  // namespace glint
