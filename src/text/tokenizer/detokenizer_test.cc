#include "text/tokenizer/detokenizer.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/utf8.h"
#include "text/tokenizer/tokenizer_testing.h"

namespace glint {
namespace {

using Ids = std::vector<TokenId>;

// Feeds `ids`; every answer must be valid UTF-8, and all of them what decoding at once gives.
void expect_as_at_once(const Tokenizer& tokenizer, const Ids& ids) {
  Detokenizer detokenizer(tokenizer);
  std::string text;
  for (const TokenId id : ids) {
    const std::string piece = detokenizer.feed(id);
    ASSERT_TRUE(is_valid_utf8(piece));
    text += piece;
  }
  text += detokenizer.flush();
  ASSERT_EQ(text, tokenizer.decode(ids));
}

TEST(Detokenizer, holds_back_half_a_character) {
  const Tokenizer tokenizer = Tokenizer::parse(dump_json(byte_level_file({}))).value();
  Detokenizer detokenizer(tokenizer);
  EXPECT_EQ(detokenizer.feed('a'), "a");
  EXPECT_EQ(detokenizer.feed(0xF0), "");
  EXPECT_EQ(detokenizer.feed(0x9F), "");
  EXPECT_EQ(detokenizer.feed(0x98), "");
  EXPECT_EQ(detokenizer.feed(0x80), "\U0001F600");
  EXPECT_EQ(detokenizer.feed(0xE4), "");
  EXPECT_EQ(detokenizer.feed('b'),
            "\uFFFD"
            "b");
  EXPECT_EQ(detokenizer.feed(0xC3), "");
  EXPECT_EQ(detokenizer.flush(), "\uFFFD");
}

TEST(Detokenizer, random_ids_stream_as_they_decode) {
  const Tokenizer tokenizer = Tokenizer::open(GLINT_SOURCE_DIR "/models/glm5-tiny").value();
  Random random(5);
  for (int round = 0; round < 4000; ++round) {
    Ids ids;
    for (std::uint32_t n = random.below(30); n > 0; --n) {
      // Half of them single bytes, a few outside the vocabulary.
      ids.push_back(static_cast<TokenId>(random.below(2) ? random.below(256) : random.below(3700)));
    }
    expect_as_at_once(tokenizer, ids);
  }
}

TEST(Detokenizer, outlives_the_tokenizer_it_was_made_of) {
  auto tokenizer =
      std::make_unique<Tokenizer>(Tokenizer::parse(dump_json(byte_level_file({}))).value());
  Detokenizer detokenizer(*tokenizer);
  tokenizer.reset();
  EXPECT_EQ(detokenizer.feed('x'), "x");
}

}  // namespace
}  // namespace glint
