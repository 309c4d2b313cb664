#include "server/server_core.h"

#include "base/str.h"

namespace glint {

const char* name_of(ServerState state) {
  switch (state) {
    case ServerState::kStarting:
      return "starting";
    case ServerState::kReady:
      return "ready";
    case ServerState::kDraining:
      break;
  }
  return "draining";
}

ServerCore::ServerCore(ServerConfig server_config)
    : config(std::move(server_config)),
      metrics(std::make_shared<Metrics>(config.report.metrics, config.served_names.front())) {}

ApiStatus ServerCore::ready() const {
  const ServerState now = state;
  if (now == ServerState::kReady) return Ok{};
  return not_ready_error(name_of(now));
}

const char* ServerCore::state_name() const {
  const ServerState now = state;
  if (now == ServerState::kReady && !generations->executor().ready()) return "recovering";
  return name_of(now);
}

EngineStats ServerCore::stats() const {
  Generations* const g = opened();
  return g ? g->engine().stats() : EngineStats{};
}

const Route* find_route(const std::vector<Route>& routes, std::string_view method,
                        std::string_view path, std::string& allow) {
  if (method == "HEAD") method = "GET";
  for (const Route& route : routes) {
    const std::string_view known = route.path;
    const bool same =
        route.prefix ? path.size() > known.size() && path.starts_with(known) : path == known;
    if (!same) continue;
    if (method == route.method) return &route;
    allow += str(allow.empty() ? "" : ", ", route.method);
  }
  return nullptr;
}

}  // namespace glint
