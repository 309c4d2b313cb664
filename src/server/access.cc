#include "server/access.h"

#include <algorithm>

#include "base/contains.h"
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

// Whether the URL or origin `from` is of this server, by the name that the client used for it.
bool is_own(std::string_view from, std::string_view host) {
  const std::size_t scheme = from.find("://");
  if (scheme == std::string_view::npos) return false;
  from.remove_prefix(scheme + 3);
  return from.substr(0, from.find('/')) == host;
}

// A page of another site made a browser send this. Images and links bring no origin, and to a plain
// name no Sec-Fetch-Site.
bool is_cross_site(const HttpRequest& request) {
  const std::string_view site = request.header("sec-fetch-site"), host = request.header("host");
  if (site == "cross-site" || site == "same-site") return true;
  if (const std::string_view origin = request.header("origin"); !origin.empty())
    return !is_own(origin, host);
  const std::string_view referer = request.header("referer");
  return site.empty() && !referer.empty() && !is_own(referer, host);
}

bool is_of_browser(const HttpRequest& request) {
  return std::ranges::any_of(request.headers, [](const auto& header) {
    return header.first == "origin" || header.first.starts_with("sec-fetch-");
  });
}

// A proxy on this machine brings requests of others, and says so.
bool is_of_this_machine(const HttpRequest& request) {
  for (const char* name : {"forwarded", "x-forwarded-for", "x-real-ip", "via"})
    if (!request.header(name).empty()) return false;
  return request.peer.starts_with("127.") || request.peer.starts_with("[::1]");
}

// Against DNS rebinding: a page may make its own name mean this machine, but not an address, and
// not a name that only we know.
bool is_own_host(const ServerConfig& config, std::string_view header) {
  const bool is_v6 = header.starts_with('[');
  const std::string host = lower(is_v6 ? header : header.substr(0, header.find(':')));
  const bool is_address = is_v6 || host.find_first_not_of("0123456789.") == host.npos;
  // HTTP/1.0 may come without a host; browsers do not.
  return is_address || host == "localhost" || host.ends_with(".localhost") ||
         contains(config.access.allowed_hosts, "*") || contains(config.access.allowed_hosts, host);
}

ApiError forbidden(std::string message) { return {.status = 403, .message = std::move(message)}; }

ApiStatus check_host(const ServerConfig& config, const HttpRequest& request) {
  const std::string_view host = request.header("host");
  if (is_own_host(config, host)) return Ok{};
  return forbidden(str("the host ", quoted(host),
                       " is no name of this server that it knows; use its address, or start it "
                       "with --allowed-hosts NAME"));
}

// Whether the request is from a page that is neither the server's own nor allowed.
bool has_strange_origin(const ServerConfig& config, const HttpRequest& request) {
  const std::string_view origin = request.header("origin");
  return !origin.empty() && !is_own(origin, request.header("host")) &&
         !contains(config.access.allowed_origins, "*") &&
         !contains(config.access.allowed_origins, origin);
}

}  // namespace

bool is_key(std::string_view given, const std::vector<std::string>& keys) {
  bool found = false;  // every key is compared, so that time tells nothing
  for (const std::string& key : keys) found |= !key.empty() && same_secret(given, key);
  return found;
}

ApiStatus check_access(const ServerConfig& config, const Route& route, const HttpRequest& request) {
  const bool admin = route.access == RouteAccess::kAdmin, free = route.access == RouteAccess::kFree;
  if (admin && is_cross_site(request))
    return forbidden("pages of other origins may not change the server");
  if (!free && has_strange_origin(config, request))
    return forbidden(str("pages of ", quoted(request.header("origin")),
                         " may not use this server; --allowed-origins allows them"));
  const bool own_keys = admin && !config.access.admin_api_keys.empty();
  const std::vector<std::string>& api_keys = config.access.api_keys;
  const std::vector<std::string>& admin_keys = config.access.admin_api_keys;
  const std::vector<std::string>& keys = own_keys ? admin_keys : api_keys;
  if (free || keys.empty()) {
    if (admin && !is_of_this_machine(request))
      return forbidden(str(request.path,
                           " changes the server: from other machines it needs a key; "
                           "start the server with --admin-api-key KEY and send it as "
                           "\"Authorization: Bearer KEY\""));
    return admin || is_of_browser(request) ? check_host(config, request) : Ok{};
  }
  const std::string_view given = key_of(request);
  // An admin key is an API key, too.
  if (is_key(given, keys) || is_key(given, admin_keys)) return Ok{};
  if (own_keys && is_key(given, api_keys)) {
    return forbidden(str(request.path, " changes the server: it needs a key of --admin-api-key"));
  }
  return ApiError{.status = 401,
                  .message = given.empty() ? "the API key is missing; send it as \"Authorization: "
                                             "Bearer KEY\" or \"x-api-key: KEY\""
                                           : "the API key is wrong",
                  .code = "invalid_api_key"};
}

HttpHeaders cors_headers(const ServerConfig& config, const HttpRequest& request) {
  const std::string_view origin = request.header("origin");
  const bool any = contains(config.access.allowed_origins, "*");
  if (origin.empty() || !(any || contains(config.access.allowed_origins, origin))) return {};
  HttpHeaders out;
  out.emplace_back("access-control-allow-origin", any ? "*" : std::string(origin));
  if (!any) out.emplace_back("vary", "origin");
  out.emplace_back("access-control-expose-headers", "x-request-id, request-id, retry-after");
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
