#include "server/access.h"

#include <gtest/gtest.h>

#include "base/str.h"

namespace glint {
namespace {

HttpRequest request_with(HttpHeaders headers) {
  HttpRequest request;
  request.headers = std::move(headers);
  return request;
}

std::string refusal(const ServerConfig& config, RouteAccess access, HttpHeaders headers,
                    const char* peer = "127.0.0.1:9") {
  HttpRequest request = request_with(std::move(headers));
  request.peer = peer;
  request.path = "/flush_cache";
  const ApiStatus access_status = check_access(config, {.access = access}, request);
  if (access_status.ok()) return "200";
  return str(access_status.error().status, " ", access_status.error().message);
}

int status_of(const ServerConfig& config, RouteAccess access, HttpHeaders headers,
              const char* peer = "127.0.0.1:9") {
  return std::stoi(refusal(config, access, std::move(headers), peer));
}

TEST(Access, any_of_the_keys_opens) {
  ServerConfig config = {.access = {.api_keys = {"one", "two"}}};
  EXPECT_EQ(status_of(config, RouteAccess::kApi, {}), 401);
  EXPECT_EQ(status_of(config, RouteAccess::kApi, {{"authorization", "Bearer two"}}), 200);
  EXPECT_EQ(status_of(config, RouteAccess::kApi, {{"authorization", "bearer one"}}), 200);
  EXPECT_EQ(status_of(config, RouteAccess::kApi, {{"x-api-key", "one"}}), 200);
  for (const char* wrong : {"Bearer on", "Bearer onee", "Bearer oneone", "Bearer ", "one", ""})
    EXPECT_EQ(status_of(config, RouteAccess::kApi, {{"authorization", wrong}}), 401) << wrong;
  EXPECT_EQ(status_of(config, RouteAccess::kFree, {}), 200);
  EXPECT_EQ(status_of({}, RouteAccess::kApi, {}), 200);
}

TEST(Access, an_empty_key_never_opens) {
  EXPECT_FALSE(is_key("", {""}));
  EXPECT_FALSE(is_key("a", {""}));
  EXPECT_FALSE(is_key("", {"a"}));
}

TEST(Access, what_changes_the_server_has_keys_of_its_own) {
  ServerConfig config = {.access = {.api_keys = {"user"}, .admin_api_keys = {"admin"}}};
  EXPECT_EQ(status_of(config, RouteAccess::kAdmin, {{"x-api-key", "user"}}), 403);
  EXPECT_EQ(status_of(config, RouteAccess::kAdmin, {{"x-api-key", "other"}}), 401);
  EXPECT_EQ(status_of(config, RouteAccess::kAdmin, {{"x-api-key", "admin"}}), 200);
  // An admin key is an API key, too.
  EXPECT_EQ(status_of(config, RouteAccess::kApi, {{"x-api-key", "admin"}}), 200);
  EXPECT_EQ(status_of(config, RouteAccess::kApi, {{"x-api-key", "other"}}), 401);
  config.access.admin_api_keys.clear();
  EXPECT_EQ(status_of(config, RouteAccess::kAdmin, {{"x-api-key", "user"}}), 200);
}

TEST(Access, pages_of_other_sites_cannot_change_the_server) {
  EXPECT_EQ(status_of({}, RouteAccess::kAdmin,
                      {{"origin", "https://evil.example"}, {"host", "localhost:8000"}}),
            403);
  EXPECT_EQ(status_of({}, RouteAccess::kAdmin,
                      {{"origin", "http://localhost:8000"}, {"host", "localhost:8000"}}),
            200);
  EXPECT_EQ(status_of({}, RouteAccess::kAdmin, {{"origin", "null"}, {"host", "h"}}), 403);
  // An image's address is asked for without an origin.
  EXPECT_EQ(status_of({}, RouteAccess::kAdmin, {{"sec-fetch-site", "cross-site"}}), 403);
  EXPECT_EQ(status_of({}, RouteAccess::kAdmin, {{"sec-fetch-site", "same-site"}}), 403);
  EXPECT_EQ(status_of({}, RouteAccess::kAdmin, {{"sec-fetch-site", "same-origin"}}), 200);
  EXPECT_EQ(status_of({}, RouteAccess::kAdmin, {{"sec-fetch-site", "none"}}), 200);
  // To a plain name browsers send no more than this.
  EXPECT_EQ(status_of({}, RouteAccess::kAdmin,
                      {{"referer", "http://evil.example/x"}, {"host", "localhost"}}),
            403);
  EXPECT_EQ(status_of({}, RouteAccess::kAdmin,
                      {{"referer", "http://localhost/page"}, {"host", "localhost"}}),
            200);
}

TEST(Access, a_name_that_a_page_chose_is_no_host) {
  const auto asked = [](const char* host, const ServerConfig& config = {}) {
    return status_of(config, RouteAccess::kAdmin,
                     {{"host", host}, {"origin", str("http://", host)}});
  };
  EXPECT_EQ(asked("evil.example:8000"), 403);
  for (const char* own :
       {"localhost:8000", "LOCALHOST", "a.localhost", "127.0.0.1:1", "[::1]:8000", "10.1.2.3"})
    EXPECT_EQ(asked(own), 200) << own;
  EXPECT_EQ(asked("gpu7.lan:8000", {.access = {.allowed_hosts = {"gpu7.lan"}}}), 200);
  EXPECT_EQ(asked("any.thing", {.access = {.allowed_hosts = {"*"}}}), 200);
  // No page has the key. Programs may use any host name; a browser is known by its headers.
  EXPECT_EQ(status_of({.access = {.api_keys = {"k"}}}, RouteAccess::kAdmin,
                      {{"host", "gpu7.lan"}, {"x-api-key", "k"}}),
            200);
  EXPECT_EQ(status_of({}, RouteAccess::kApi, {{"host", "api.example"}}), 200);
  EXPECT_EQ(status_of({}, RouteAccess::kAdmin, {{"host", "api.example"}}), 403);
  for (const char* header : {"origin", "sec-fetch-site", "sec-fetch-mode"})
    EXPECT_EQ(status_of({}, RouteAccess::kApi, {{"host", "evil.example"}, {header, "none"}}), 403);
  EXPECT_NE(refusal({}, RouteAccess::kApi, {{"host", "evil.example"}, {"sec-fetch-mode", "cors"}})
                .find("--allowed-hosts"),
            std::string::npos);
}

TEST(Access, other_machines_need_a_key_to_change_the_server) {
  for (const char* peer : {"10.0.0.2:5", "[fe80::1]:5", "192.168.0.1:80"}) {
    EXPECT_EQ(status_of({}, RouteAccess::kAdmin, {}, peer), 403);
    EXPECT_NE(refusal({}, RouteAccess::kAdmin, {}, peer).find("--admin-api-key"),
              std::string::npos);
    EXPECT_EQ(status_of({}, RouteAccess::kApi, {}, peer), 200);
    EXPECT_EQ(status_of({.access = {.admin_api_keys = {"k"}}}, RouteAccess::kAdmin,
                        {{"x-api-key", "k"}}, peer),
              200);
  }
  EXPECT_EQ(status_of({}, RouteAccess::kAdmin, {}, "[::1]:5"), 200);
  for (const char* header : {"forwarded", "x-forwarded-for", "x-real-ip", "via"})
    EXPECT_EQ(status_of({}, RouteAccess::kAdmin, {{header, "1.2.3.4"}}), 403) << header;
}

TEST(Access, only_pages_of_allowed_origins_may_ask) {
  const ServerConfig config = {.access = {.allowed_origins = {"https://good.example"}}};
  const auto asked = [&](const char* origin) {
    return status_of(config, RouteAccess::kApi, {{"origin", origin}, {"host", "localhost:8000"}});
  };
  EXPECT_EQ(asked("https://good.example"), 200);
  EXPECT_EQ(asked("http://localhost:8000"), 200);  // its own page
  EXPECT_EQ(asked("https://evil.example"), 403);
  EXPECT_EQ(asked("null"), 403);
}

TEST(Access, origins_get_what_the_configuration_allows) {
  const HttpRequest request = request_with({{"origin", "https://a.example"}});
  const auto allowed = [&](const ServerConfig& config) {
    for (const auto& [name, value] : cors_headers(config, request))
      if (name == "access-control-allow-origin") return value;
    return std::string();
  };
  EXPECT_EQ(allowed({}), "*");
  EXPECT_EQ(allowed({.access = {.allowed_origins = {"https://a.example"}}}), "https://a.example");
  EXPECT_EQ(allowed({.access = {.allowed_origins = {"https://b.example"}}}), "");
  EXPECT_TRUE(cors_headers({}, request_with({})).empty());
}

}  // namespace
}  // namespace glint
