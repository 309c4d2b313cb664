#include "net/server_url.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

TEST(ServerUrl, parts_and_defaults) {
  const auto parts = [](std::string_view text) {
    const ServerUrl url = parse_server_url(text).value();
    return url.origin + " " + url.path;
  };
  EXPECT_EQ(parts("http://localhost"), "http://localhost /");
  EXPECT_EQ(parts("HTTPS://[::1]:8443/v1/models?a=b#frag"), "https://[::1]:8443 /v1/models?a=b");
  EXPECT_EQ(parts("https://a.b:443/"), "https://a.b /");
  EXPECT_EQ(parts("http://a.b:443/"), "http://a.b:443 /");
  EXPECT_EQ(parts("http://a?x=1"), "http://a /?x=1");
  EXPECT_EQ(parts("http://a/b/../c"), "http://a /b/../c");  // as it was written
}

TEST(ServerUrl, what_is_none_is_refused_with_a_reason) {
  const auto error = [](std::string_view text) {
    const auto url = parse_server_url(text);
    return url.ok() ? "" : url.error().message;
  };
  EXPECT_EQ(error("localhost:8000"),
            "the URL \"localhost:8000\" does not begin with http:// or https://");
  EXPECT_EQ(error("http://key@host/"),
            "the URL \"http://key@host/\" holds a user name; send keys in a header instead");
  for (const char* text : {"http://host:70000/", "http://host:0/", "http://a:123456/",
                           "http://a:b/", "http://[::1]x/"})
    EXPECT_NE(error(text).find("has no valid port; ports are 1 to 65535"), std::string::npos)
        << text;
  EXPECT_EQ(error("http://a/b c"), "the URL \"http://a/b c\" has blanks or control characters");
  for (const char* text : {"http://", "http:///x", "http://[::1", "http://a%2533b/"})
    EXPECT_NE(error(text).find("has no valid host and port"), std::string::npos) << text;
  EXPECT_NE(error(std::string_view("http://a/\0", 10)), "");
  EXPECT_NE(error("http://a b/"), "");
}

TEST(ServerUrl, servers_of_the_api_have_no_other_path) {
  for (const char* text :
       {"http://a:8000", "http://a:8000/", "http://a:8000/v1", "http://a:8000/v1/"})
    EXPECT_EQ(parse_api_server(text).value(), "http://a:8000") << text;
  EXPECT_EQ(parse_api_server("http://a/x/v1").error().message,
            "a server is expected, such as http://127.0.0.1:8000, got the path \"/x/v1\"");
}

TEST(ServerUrl, redirections_are_read_from_where_they_come) {
  const std::string base = "https://hub:8443/a/b?c";
  EXPECT_EQ(resolve_url(base, "/x?y=1").value(), "https://hub:8443/x?y=1");
  EXPECT_EQ(resolve_url(base, "x").value(), "https://hub:8443/a/x");
  EXPECT_EQ(resolve_url(base, "http://cdn/x#f").value(), "http://cdn/x");
  EXPECT_EQ(resolve_url(base, "//cdn/x").value(), "https://cdn/x");
  for (const char* bad : {"", "file:///etc/passwd", "http://u@h/", "/a b"})
    EXPECT_FALSE(resolve_url(base, bad).ok()) << bad;
}

}  // namespace
}  // namespace glint
