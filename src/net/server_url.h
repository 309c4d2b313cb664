// The addresses of servers, as a user writes them.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace glint {

struct ServerUrl {
  std::string origin;      // "https://host:8443", without the port of the scheme
  std::string path = "/";  // with the query
};

// http and https only; no user name. A fragment is dropped.
Result<ServerUrl> parse_server_url(std::string_view text);

// The origin of a server of OpenAI's API, named with or without its /v1. Fails on another path.
Result<std::string> parse_api_server(std::string_view text);

// Resolves the Location header of an answer from `base`: "next" or "/next" there, or a whole URL.
Result<std::string> resolve_url(const std::string& base, const std::string& location);

}  // namespace glint
