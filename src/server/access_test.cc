#include "server/access.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

HttpRequest request_with(HttpHeaders headers) {
  HttpRequest request;
  request.headers = std::move(headers);
  return request;
}

int status_of(const ServerConfig& config, RouteAccess access, HttpHeaders headers) {
  const auto error = check_access(config, {.access = access}, request_with(std::move(headers)));
  return error ? error->status : 200;
}

TEST(Access, any_of_the_keys_opens) {
  ServerConfig config = {.api_keys = {"one", "two"}};
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
  ServerConfig config = {.api_keys = {"user"}, .admin_api_keys = {"admin"}};
  EXPECT_EQ(status_of(config, RouteAccess::kAdmin, {{"x-api-key", "user"}}), 401);
  EXPECT_EQ(status_of(config, RouteAccess::kAdmin, {{"x-api-key", "admin"}}), 200);
  config.admin_api_keys.clear();
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
}

TEST(Access, origins_get_what_the_configuration_allows) {
  const HttpRequest request = request_with({{"origin", "https://a.example"}});
  const auto allowed = [&](const ServerConfig& config) {
    for (const auto& [name, value] : cors_headers(config, request))
      if (name == "access-control-allow-origin") return value;
    return std::string();
  };
  EXPECT_EQ(allowed({}), "*");
  EXPECT_EQ(allowed({.allowed_origins = {"https://a.example"}}), "https://a.example");
  EXPECT_EQ(allowed({.allowed_origins = {"https://b.example"}}), "");
  EXPECT_TRUE(cors_headers({}, request_with({})).empty());
}

}  // namespace
}  // namespace glint
