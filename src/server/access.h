// Access to the server: API keys, other origins (CORS), forged requests of other sites.
#pragma once

#include <string>

#include "server/errors.h"
#include "server/server_core.h"

namespace glint {

// Whether `given` is one of `keys`, in a time that does not tell how near it is.
bool is_key(std::string_view given, const std::vector<std::string>& keys);

// 401 or 403, or nothing: the request may use the route. Keys come as "Authorization: Bearer KEY"
// or as "x-api-key: KEY".
ApiStatus check_access(const ServerConfig& config, const Route& route, const HttpRequest& request);

// CORS headers, which let a page of an allowed origin read the answer; none for other requests.
HttpHeaders cors_headers(const ServerConfig& config, const HttpRequest& request);

// Further headers of the answer to a browser's preflight request (OPTIONS).
HttpHeaders preflight_headers(const ServerConfig& config, const HttpRequest& request);

}  // namespace glint
