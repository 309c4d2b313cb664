#include "server/access.h"

#include <algorithm>

#include "base/str.h"
#include "net/secret.h"

namespace glint {
namespace {

std::string_view key_of(const HttpRequest& request) {
  std::string_view value = request.header("authorization");
  constexpr std::string_view kBearer = "bearer ";
  if (value.size() > kBearer.size() && lower(value.substr(0, kBearer.size())) == kBearer)
    return value.substr(kBearer.size());
  return request.header("x-api-key");
}

bool contains(const std::vector<std::string>& list, std::string_view item) {
  return std::ranges::find(list, item) != list.end();
}

// A page of another site made a browser send this. Images and links bring no origin.
bool is_cross_site(const HttpRequest& request) {
  const std::string_view site = request.header("sec-fetch-site");
  if (site == "cross-site" || site == "same-site") return true;
  const std::string_view origin = request.header("origin"), host = request.header("host");
  if (origin.empty()) return false;
  const std::size_t scheme = origin.find("://");
  return scheme == std::string_view::npos || origin.substr(scheme + 3) != host;
}

}  // namespace

bool is_key(std::string_view given, const std::vector<std::string>& keys) {
  bool found = false;  // every key is compared, so that time tells nothing
  for (const std::string& key : keys) found |= !key.empty() && same_secret(given, key);
  return found;
}

std::optional<ApiError> check_access(const ServerConfig& config, const Route& route,
                                     const HttpRequest& request) {
  const bool admin = route.access == RouteAccess::kAdmin;
  if (admin && is_cross_site(request))
    return ApiError{.status = 403, .message = "pages of other origins may not change the server"};
  const bool own_keys = admin && !config.admin_api_keys.empty();
  const std::vector<std::string>& keys = own_keys ? config.admin_api_keys : config.api_keys;
  if (route.access == RouteAccess::kFree || keys.empty()) return {};
  const std::string_view given = key_of(request);
  if (is_key(given, keys)) return {};
  return ApiError{.status = 401,
                  .message = given.empty() ? "the API key is missing; send it as \"Authorization: "
                                             "Bearer KEY\" or \"x-api-key: KEY\""
                                           : "the API key is wrong",
                  .code = "invalid_api_key"};
}

HttpHeaders cors_headers(const ServerConfig& config, const HttpRequest& request) {
  const std::string_view origin = request.header("origin");
  const bool any = contains(config.allowed_origins, "*");
  if (origin.empty() || !(any || contains(config.allowed_origins, origin))) return {};
  HttpHeaders out;
  out.emplace_back("access-control-allow-origin", any ? "*" : std::string(origin));
  if (!any) out.emplace_back("vary", "origin");
  out.emplace_back("access-control-expose-headers", "x-request-id, retry-after");
  return out;
}

HttpHeaders preflight_headers(const ServerConfig& config, const HttpRequest& request) {
  if (cors_headers(config, request).empty()) return {};
  HttpHeaders out;
  // Whatever the page asks for is allowed.
  const auto asked = [&](const char* name, const char* otherwise) {
    const std::string_view value = request.header(name);
    return std::string(value.empty() ? otherwise : value);
  };
  out.emplace_back("access-control-allow-methods",
                   asked("access-control-request-method", "GET, POST, OPTIONS"));
  out.emplace_back("access-control-allow-headers", asked("access-control-request-headers",
                                                         "authorization, content-type, x-api-key"));
  out.emplace_back("access-control-max-age", "600");
  return out;
}

}  // namespace glint
