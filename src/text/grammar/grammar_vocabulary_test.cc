#include "text/grammar/grammar_vocabulary.h"

#include <gtest/gtest.h>

#include "base/str.h"

namespace glint {
namespace {

TEST(GrammarVocabulary, comes_back_as_it_was) {
  const Tokenizer tokenizer = Tokenizer::open(str(GLINT_SOURCE_DIR, "/models/glm5-tiny")).value();
  const GrammarVocabulary vocabulary = read_vocabulary(tokenizer, 3712, {3655});
  EXPECT_EQ(vocabulary.size(), 3712);
  EXPECT_FALSE(vocabulary.markers.empty());
  EXPECT_TRUE(vocabulary.tool_call && vocabulary.end_think);
  const std::string bytes = to_bytes(vocabulary);
  EXPECT_EQ(vocabulary_of(bytes).value(), vocabulary);
  EXPECT_EQ(vocabulary_of(to_bytes({})).value(), GrammarVocabulary{});
  for (std::size_t size = 0; size < bytes.size(); size += 97)
    EXPECT_FALSE(vocabulary_of(std::string_view(bytes).substr(0, size)).ok()) << size;
  EXPECT_FALSE(vocabulary_of(bytes + "x").ok());
}

}  // namespace
}  // namespace glint
