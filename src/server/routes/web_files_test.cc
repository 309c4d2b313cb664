#include "server/routes/web_files.h"

#include <gtest/gtest.h>

#include <regex>

namespace glint {
namespace {

TEST(WebFiles, the_page_stands_at_the_root_with_a_strict_policy) {
  const HttpResponse page = web_response("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.header("content-type"), "text/html; charset=utf-8");
  EXPECT_TRUE(page.body.starts_with("<!doctype html>"));
  const std::string_view policy = page.header("content-security-policy");
  EXPECT_NE(policy.find("default-src 'none'"), std::string::npos);
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  EXPECT_EQ(web_response("/../style.css").status, 404);
  EXPECT_EQ(web_response("/none.js").status, 404);
}

TEST(WebFiles, whatever_a_file_refers_to_is_there_and_nothing_is_elsewhere) {
  const std::regex reference(R"re((?:src|href)="([^"#]+)"|from '\./([^']+)')re");
  int found = 0;
  for (const EmbeddedFile& file : web_files()) {
    const std::string text(file.bytes);
    for (std::sregex_iterator it(text.begin(), text.end(), reference), end; it != end; ++it) {
      const std::string name = (*it)[1].matched ? (*it)[1].str() : (*it)[2].str();
      EXPECT_EQ(web_response("/" + name).status, 200) << file.name << " refers to " << name;
      ++found;
    }
    EXPECT_FALSE(std::regex_search(text, std::regex("(src|href)=\"(https?:)?//|@import|url\\(")))
        << file.name << " refers to another host";
    EXPECT_EQ(text.find("style=\""), std::string::npos) << file.name << " has an inline style";
    EXPECT_EQ(text.find("innerHTML"), std::string::npos) << file.name << " makes nodes of text";
  }
  EXPECT_GE(found, 8);
}

}  // namespace
}  // namespace glint
