#include "net/http_server.h"

#include <gtest/gtest.h>

#include <cstdlib>
namespace glint {
TEST(HttpServer, curl_is_answered) {
  auto server = HttpServer::start({}, [](HttpRequest request, HttpExchange exchange) {
    exchange.respond({.body = request.method + request.path + request.body});
  });
  ASSERT_TRUE(server.ok()) << server.error().message;
  const std::string url = "http://127.0.0.1:" + std::to_string(server.value()->port());
  EXPECT_EQ(std::system(("curl -sv " + url + "/a%20b " + url + "/c -d x >&2").c_str()), 0);
}
}  // namespace glint
