#include "net/request_target.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

TEST(Target, forms_of_rfc_9112) {
  const RequestTarget origin = parse_target("/v1/models/zai%2Forg%20x?a=%zz&b").value();
  EXPECT_EQ(origin.path, "/v1/models/zai/org x");
  EXPECT_EQ(origin.query, "a=%zz&b");
  EXPECT_EQ(origin.authority, "");

  const RequestTarget absolute = parse_target("HTTP://example.com:80/p?q").value();
  EXPECT_EQ(absolute.path, "/p");
  EXPECT_EQ(absolute.query, "q");
  EXPECT_EQ(absolute.authority, "example.com:80");
  EXPECT_EQ(parse_target("http://a").value().path, "/");
  EXPECT_EQ(parse_target("http://a?q").value().query, "q");

  EXPECT_EQ(parse_target("*").value().path, "*");
  EXPECT_EQ(parse_target("/%e6%bc%a2").value().path, "/\xe6\xbc\xa2");
}

TEST(Target, what_is_none_is_refused_with_a_reason) {
  const auto error = [](std::string_view text) {
    const auto target = parse_target(text);
    return target.ok() ? "" : target.error().message;
  };
  EXPECT_EQ(error("/a%2"), "the escape \"%2\" is not % and two hex digits");
  EXPECT_EQ(error("/a%g0b"), "the escape \"%g0\" is not % and two hex digits");
  EXPECT_EQ(error("/%"), "the escape \"%\" is not % and two hex digits");
  EXPECT_EQ(error("models"), "the target \"models\" does not begin with /");
  EXPECT_EQ(error("/a%00b"), "the path has control characters");
  EXPECT_EQ(error("/a%0d%0ab"), "the path has control characters");
  EXPECT_EQ(error("/a#b"), "the target has a fragment: # is not sent to servers");
  EXPECT_EQ(error("/a?b#c"), "the target has a fragment: # is not sent to servers");
  EXPECT_EQ(error("http://a?q#x"), "the target has a fragment: # is not sent to servers");
  EXPECT_EQ(error("http://a b/"), "the target names the host \"a b\", which is none");
  EXPECT_NE(error("http:///x"), "");
  EXPECT_NE(error("example.com:443"), "");
  // Ill-formed UTF-8: a lone continuation, an overlong form, a surrogate, beyond U+10FFFF, cut
  // short.
  for (const char* text : {"/%80", "/%c0%80", "/%e0%80%80", "/%ed%a0%80", "/%f4%90%80%80",
                           "/%f5%80%80%80", "/%e6%bc", "/\xff"}) {
    EXPECT_EQ(error(text), "the path is not UTF-8") << text;
  }
}

TEST(Target, authorities) {
  for (const char* text : {"a", "a:80", "1.2.3.4:5", "[::1]", "[::1]:80", "a_b.c-d", "a:"}) {
    EXPECT_TRUE(is_authority(text)) << text;
  }
  for (const char* text :
       {"", ":80", "a:b", "a b", "a/b", "a@b", "[]", "[::1]80", "a:123456", "a\"b"}) {
    EXPECT_FALSE(is_authority(text)) << text;
  }
}

}  // namespace
}  // namespace glint
