#include "text/tokenizer/detokenizer.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "text/tokenizer/tokenizer_testing.h"
#include "text/tokenizer/unicode.h"

namespace glint {
namespace {

using Ids = std::vector<TokenId>;

// Feeds `ids`; every answer must be valid UTF-8, and all of them what decoding at once gives.
void expect_as_at_once(const Tokenizer& tokenizer, const Ids& ids, bool skip_special) {
  Detokenizer detokenizer(tokenizer, skip_special);
  std::string text;
  for (const TokenId id : ids) {
    const std::string piece = detokenizer.feed(id);
    ASSERT_TRUE(is_valid_utf8(piece));
    text += piece;
  }
  text += detokenizer.flush();
  ASSERT_EQ(text, tokenizer.decode(ids, skip_special));
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
    expect_as_at_once(tokenizer, ids, round % 2 == 0);
  }
}

TEST(Detokenizer, every_decoder_streams_as_it_decodes) {
  Json::Array vocab_texts = {"a",      "\u2581b", "\u2581", "<0xE4>", "<0xBD>",
                             "<0xA0>", "<0xFF>",  "\u00e9", "ab ",    "<0x+A>"};
  Json::Object vocab;
  for (const Json& text : vocab_texts) {
    vocab.emplace_back(text.as_string(), Json(static_cast<std::int64_t>(vocab.size())));
  }
  Json file = byte_level_file({});
  file.set("pre_tokenizer", nullptr);
  file.set("model", Json::Object{{"vocab", vocab}, {"merges", Json::Array{}}});
  file.set("added_tokens", Json::Array{added_token(10, "<s>")});
  const char* replace = R"({"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "})";
  const char* strip = R"({"type": "Strip", "content": " ", "start": 2, "stop": 0})";
  const char* strip_both = R"({"type": "Strip", "content": " ", "start": 1, "stop": 1})";
  const char *fallback = R"({"type": "ByteFallback"})", *fuse = R"({"type": "Fuse"})",
             *bytes = R"({"type": "ByteLevel"})";
  const char* word_piece = R"({"type": "WordPiece", "prefix": "\u2581", "cleanup": true})";
  const char* word_ends = R"({"type": "BPEDecoder", "suffix": " "})";
  const char* metaspace =
      R"({"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": true})";
  const std::vector<std::vector<const char*>> chains = {{replace, fallback, fuse, strip},
                                                        {fallback, metaspace},
                                                        {metaspace, fuse, strip_both},
                                                        {fuse, replace},
                                                        {fuse, bytes, strip_both},
                                                        {bytes, fuse, replace},
                                                        {strip_both},
                                                        {},
                                                        {fallback, fuse, fallback},
                                                        {fallback, word_piece},
                                                        {word_ends, replace},
                                                        {fuse, word_ends, word_piece},
                                                        {metaspace}};
  Random random(9);
  for (const auto& chain : chains) {
    Json::Array decoders;
    for (const char* step : chain) decoders.push_back(json_of(step));
    file.set("decoder", chain.empty()
                            ? Json()
                            : Json(Json::Object{{"type", "Sequence"}, {"decoders", decoders}}));
    const Tokenizer tokenizer = Tokenizer::parse(dump_json(file)).value();
    for (int round = 0; round < 300; ++round) {
      Ids ids;
      for (std::uint32_t n = random.below(12); n > 0; --n)
        ids.push_back(static_cast<TokenId>(random.below(12)));
      expect_as_at_once(tokenizer, ids, round % 2 == 0);
    }
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
