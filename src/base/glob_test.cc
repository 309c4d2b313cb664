#include "base/glob.h"

#include <gtest/gtest.h>

#include <string>

namespace glint {
namespace {

TEST(Glob, matches_as_pythons_fnmatch) {
  struct Case {
    const char* glob;
    const char* text;
    bool matches;
  };
  const Case cases[] = {{"", "", true},
                        {"", "a", false},
                        {"*", "", true},
                        {"a*c", "abbc", true},
                        {"a*c", "abbd", false},
                        {"*b*b", "abab", true},
                        {"*b*b", "aba", false},
                        {"a?c", "abc", true},
                        {"a?c", "ac", false},
                        {"[abc]x", "bx", true},
                        {"[!abc]x", "bx", false},
                        {"[!abc]x", "dx", true},
                        {"[a-c]", "b", true},
                        {"[a-c]", "d", false},
                        {"[]]", "]", true},
                        {"[", "[", true},
                        {"a.b", "axb", false},
                        {"**", "x", true},
                        {"model.layers.*.mlp.gate", "model.layers.12.mlp.gate", true},
                        {"model.layers.7*", "model.layers.70.x", true}};
  for (const Case& c : cases) EXPECT_EQ(glob_matches(c.glob, c.text), c.matches) << c.glob;
}

TEST(Glob, many_stars_take_no_exponential_time) {
  std::string glob, text(200, 'a');
  for (int i = 0; i < 50; ++i) glob += "*a";
  EXPECT_FALSE(glob_matches(glob + "b", text));
}

}  // namespace
}  // namespace glint
