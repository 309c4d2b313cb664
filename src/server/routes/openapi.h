// /openapi.json, from the table of routes: paths and methods are those that are served, and bodies
// those that the parsers name.
#pragma once

#include <vector>

#include "base/json.h"
#include "server/server_core.h"

namespace glint {

Json openapi_json(const std::vector<Route>& routes, const ServerConfig& config);

}  // namespace glint
