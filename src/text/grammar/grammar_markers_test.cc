#include "text/grammar/grammar_markers.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

TEST(GrammarMarkers, what_may_be_anything_is_no_marker) {
  EXPECT_EQ(without_markers("^.+\\.$"), "^[^<\\n]+\\.$");
  EXPECT_EQ(without_markers("^[^>\\]]*[^-a][^]$"), "^[^<>\\]]*[^<\\-a][^<]$");
  EXPECT_EQ(without_markers("\\S\\D\\W\\s\\\\S"), "[^<\\s][^<\\d][^<\\w]\\s\\\\S");
  EXPECT_EQ(without_markers("[\\s\\S][^\\S]"),
            "[\\s\\x00-\\x08\\x0e-\\x1f!-;=-\\u{10ffff}][^<\\S]");
  EXPECT_EQ(without_markers("[ -~][\\x20-\\u{7e}][\\t-\\u00fc][!-\u00fc]"),
            "[ -;=-~][\\x20-;=-\\u{7e}][\\t-;=-\\u00fc][!-;=-\u00fc]");
  for (const char* same :
       {"^[<>a-z0-9_-]<p>\\x3c\\$", "[a-", "[", "[\\\u00fc-]", "\\", "[\\u{", "[<-~][+-]"})
    EXPECT_EQ(without_markers(same), same);
}

}  // namespace
}  // namespace glint
