// ServerCore: what the routes of a server share.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/seconds.h"
#include "server/generations.h"
#include "server/id_source.h"
#include "server/server_config.h"
#include "server/task_threads.h"
#include "server/telemetry/metrics.h"
#include "server/telemetry/otlp_exporter.h"

namespace glint {

enum class ServerState { kStarting, kReady, kDraining };
const char* name_of(ServerState state);  // "starting", "ready", "draining"

struct ServerCore {
  explicit ServerCore(ServerConfig server_config);

  // 503 with Retry-After, unless the server is ready.
  ApiStatus ready() const;

  // The state as clients are told it: its name, or "recovering" while lost ranks start again.
  const char* state_name() const;

  // Null until the model is there. Any thread may ask, while another one opens it.
  Generations* opened() const {
    return state == ServerState::kStarting ? nullptr : generations.get();
  }

  EngineStats stats() const;  // zeros while there is no model

  const ServerConfig config;
  const std::int64_t started = unix_seconds();
  const std::shared_ptr<Metrics> metrics;
  IdSource ids;
  std::unique_ptr<OtlpExporter> spans;  // null: nobody wants them
  std::atomic<ServerState> state = ServerState::kStarting;
  std::unique_ptr<Generations> generations;  // from open() on; see opened()
};

enum class RouteAccess {
  kFree,   // no key
  kApi,    // a key, if there are any
  kAdmin,  // changes the server: an admin key, same origin only
};

struct Route {
  const char* method = "GET";
  const char* path = "/";
  const char* summary = "";
  // On a request thread, or with `quick` on the io thread: then it may not take time. `json` is the
  // body, an object; empty for GET.
  std::function<void(const HttpRequest& request, const Json& json, Reply reply)> handle = {};
  // Names the fields of the body, for openapi.json; null: no body is read.
  std::function<void(RequestReader&)> describe = {};
  RouteAccess access = RouteAccess::kApi;
  bool needs_model = true;      // 503 while there is none, and while draining
  bool while_draining = false;  // answered then, too, if there is a model
  bool quick = false;
  bool streams = false;  // the answer may be server-sent events
  bool prefix = false;   // what follows the path is its parameter
};

// Each appends its routes; `core` outlives them.
void add_generate_routes(ServerCore& core, std::vector<Route>& routes);
void add_text_routes(ServerCore& core, std::vector<Route>& routes);
void add_info_routes(ServerCore& core, std::vector<Route>& routes);
void add_control_routes(ServerCore& core, TaskThreads& control_thread, std::vector<Route>& routes);

// The route of a request; null if the path is unknown. A known path with another method gives null
// and fills `allow` ("GET, POST").
const Route* find_route(const std::vector<Route>& routes, std::string_view method,
                        std::string_view path, std::string& allow);

}  // namespace glint
