#include "text/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "base/contains.h"
#include "base/file.h"
#include "base/random.h"
#include "base/str.h"
#include "base/test_dir.h"
#include "base/utf8.h"
#include "text/tokenizer/tokenizer_testing.h"

namespace glint {
namespace {

using Ids = std::vector<TokenId>;

const std::string kTiny = GLINT_SOURCE_DIR "/models/glm5-tiny";

Tokenizer tokenizer_of(const Json& file) {
  Result<Tokenizer> tokenizer = Tokenizer::parse(dump_json(file));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  return std::move(tokenizer).value();
}

std::string error_of(const Json& file) {
  const Result<Tokenizer> tokenizer = Tokenizer::parse(dump_json(file));
  return tokenizer.ok() ? "" : tokenizer.error().message;
}

// `file` with the member at the path (keys, then the value) replaced.
Json with(Json file, const std::vector<std::string>& path, Json value) {
  Json* at = &file;
  for (const std::string& key : path) {
    if (!at->find(key)) at->set(key, nullptr);
    at = at->find(key);
  }
  *at = std::move(value);
  return file;
}

std::vector<std::string> pieces(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::string> out;
  const Ids ids = tokenizer.encode(text).value();
  for (const TokenId id : ids) out.push_back(tokenizer.decode(Ids{id}));
  return out;
}

TEST(Tokenizer, of_glm5_tiny_splits_as_glm_does) {
  const Tokenizer tokenizer = Tokenizer::open(kTiny).value();
  EXPECT_EQ(pieces(tokenizer, " is 2+2?"),
            (std::vector<std::string>{" is", " ", "2", "+", "2", "?"}));
  EXPECT_EQ(pieces(tokenizer, "1234"), (std::vector<std::string>{"123", "4"}));
  EXPECT_TRUE(tokenizer.encode("").value().empty());
}

TEST(Tokenizer, of_glm5_tiny_reads_special_tokens) {
  const Tokenizer tokenizer = Tokenizer::open(kTiny + "/tokenizer.json").value();
  const Ids ids = tokenizer.encode("[gMASK]<sop><|user|>A<|assistant|><think>").value();
  EXPECT_EQ(ids, (Ids{3657, 3659, 3662, 32, 3663, 3676}));
  EXPECT_TRUE(tokenizer.is_special(3662));
  EXPECT_FALSE(tokenizer.is_special(3676));  // <think> stays in the text
  EXPECT_EQ(tokenizer.decode(ids, /*skip_special=*/true), "A<think>");
  EXPECT_EQ(tokenizer.vocab_size(), 3691);
  EXPECT_EQ(tokenizer.added_tokens().size(), 36u);
  EXPECT_EQ(tokenizer.token_to_id("<|user|>"), 3662);
  EXPECT_EQ(tokenizer.id_to_token(3662), "<|user|>");
  EXPECT_EQ(tokenizer.token_to_id("no such token"), std::nullopt);
  EXPECT_EQ(tokenizer.id_to_token(3691), std::nullopt);
  EXPECT_EQ(tokenizer.id_to_token(-1), std::nullopt);
}

TEST(Tokenizer, added_tokens_of_a_user_can_be_letters) {
  const Tokenizer tokenizer = Tokenizer::open(kTiny).value();
  const Ids ids = tokenizer.encode("<|user|>", {.parse_special = false}).value();
  EXPECT_GT(ids.size(), 1u);
  EXPECT_EQ(tokenizer.decode(ids), "<|user|>");
}

TEST(Tokenizer, any_bytes_go_there_and_back) {
  const Tokenizer tokenizer = Tokenizer::open(kTiny).value();
  Random random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes;
    for (std::uint32_t n = random.below(40); n > 0; --n) {
      bytes += static_cast<char>(random.below(4) ? 'a' + random.below(26) : random.below(256));
    }
    ASSERT_EQ(tokenizer.decode(tokenizer.encode(bytes).value()), lossy_utf8(bytes));
  }
}

TEST(Tokenizer, decoding_leaves_out_what_is_no_id) {
  const Tokenizer tokenizer = tokenizer_of(byte_level_file({}));
  EXPECT_EQ(tokenizer.decode(Ids{'a', 256, 100000, -1, INT32_MAX, 'b'}), "ab");
  EXPECT_EQ(tokenizer.decode(Ids{0xE4, 0xBD, 'x', 0xFF}), "\uFFFDx\uFFFD");
  EXPECT_EQ(tokenizer.decode(Ids{}), "");
}

TEST(Bpe, merges_the_lowest_rank_first_and_the_leftmost_of_equals) {
  const Tokenizer tokenizer =
      tokenizer_of(byte_level_file({{"b", "c"}, {"a", "b"}, {"a", "a"}, {"aa", "a"}}));
  EXPECT_EQ(tokenizer.encode("abc").value(), (Ids{'a', 256}));
  EXPECT_EQ(tokenizer.encode("aba").value(), (Ids{257, 'a'}));
  EXPECT_EQ(tokenizer.encode("aaaaa").value(), (Ids{258, 259}));
}

TEST(Bpe, a_token_that_merges_do_not_reach_is_found_only_with_ignore_merges) {
  const Json file = byte_level_file({{"b", "c"}, {"a", "b"}, {"ab", "c"}});
  EXPECT_EQ(tokenizer_of(file).encode("abc").value(), (Ids{'a', 256}));
  EXPECT_EQ(tokenizer_of(with(file, {"model", "ignore_merges"}, true)).encode("abc").value(),
            Ids{258});
}

TEST(Bpe, merges_may_be_texts) {
  const Json file =
      with(byte_level_file({{"a", "b"}}), {"model", "merges"}, Json::Array{"#version: 0.2", "a b"});
  EXPECT_EQ(tokenizer_of(file).encode("ab").value(), Ids{256});
}

// The heap for long words and the scan for short ones agree: a long word of pieces that cannot
// merge with each other.
TEST(Bpe, long_words_merge_as_short_ones_do) {
  std::vector<std::pair<std::string, std::string>> merges;
  Random random(11);
  std::vector<std::string> tokens = {"a", "b", "c", "d"};
  for (int i = 0; i < 60; ++i) {
    const std::string left = tokens[random.below(static_cast<std::uint32_t>(tokens.size()))];
    const std::string right = tokens[random.below(static_cast<std::uint32_t>(tokens.size()))];
    if (contains(tokens, left + right)) continue;
    merges.emplace_back(left, right);
    tokens.push_back(left + right);
  }
  const Tokenizer tokenizer = tokenizer_of(byte_level_file(merges));
  for (int round = 0; round < 500; ++round) {
    std::string text;
    Ids expected;
    while (text.size() < 200) {
      std::string word;
      for (std::uint32_t n = 1 + random.below(40); n > 0; --n)
        word += static_cast<char>('a' + random.below(4));
      word += '|';
      const Ids ids = tokenizer.encode(word).value();
      expected.insert(expected.end(), ids.begin(), ids.end());
      text += word;
    }
    ASSERT_EQ(tokenizer.encode(text).value(), expected) << text;
  }
}

TEST(Bpe, a_word_of_a_megabyte_takes_moments) {
  const Tokenizer tokenizer =
      tokenizer_of(byte_level_file({{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}}));
  EXPECT_EQ(tokenizer.encode(std::string(1 << 20, 'a')).value().size(), 1u << 17);
}

TEST(AddedTokens, leftmost_then_longest) {
  Json file = byte_level_file({});
  file.set("added_tokens", Json::Array{added_token(256, "<a>"), added_token(257, "<a><b>"),
                                       added_token(258, "a><b>c")});
  const Tokenizer tokenizer = tokenizer_of(file);
  EXPECT_EQ(tokenizer.encode("<a><b>c").value(), (Ids{257, 'c'}));
  EXPECT_EQ(tokenizer.encode("<a><b").value(), (Ids{256, '<', 'b'}));
  EXPECT_EQ(tokenizer.encode("x<a").value(), (Ids{'x', '<', 'a'}));
}

TEST(AddedTokens, normalized_ones_are_found_in_the_normalized_text) {
  Json yes = added_token(256, "cafe\u0301"), no = added_token(257, "e\u0301");
  yes.set("normalized", true);
  Json file = byte_level_file({});
  file.set("normalizer", json_of(R"({"type": "NFC"})"));
  file.set("added_tokens", Json::Array{yes, no});
  const Tokenizer tokenizer = tokenizer_of(file);
  EXPECT_EQ(tokenizer.encode("caf\u00e9 e\u0301 \u00e9").value(),
            (Ids{256, ' ', 257, ' ', 0xC3, 0xA9}));
}

TEST(AddedTokens, a_content_of_the_vocabulary_keeps_its_id_and_others_are_numbered_on) {
  Json file = byte_level_file({});
  file.set("added_tokens", Json::Array{added_token(900, "x"), added_token(901, "<y>")});
  const Tokenizer tokenizer = tokenizer_of(file);
  EXPECT_EQ(tokenizer.token_to_id("x"), 'x');
  EXPECT_EQ(tokenizer.token_to_id("<y>"), 256);  // as `tokenizers` does, whatever the file says
}

TEST(Tokenizer, adds_the_tokens_of_the_template_when_asked) {
  Json file = byte_level_file({});
  file.set("post_processor", json_of(R"({"type": "Sequence", "processors": [
      {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true},
      {"type": "TemplateProcessing",
       "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
       "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1, 2], "tokens": ["<s>", "x"]}}}]})"));
  const Tokenizer tokenizer = tokenizer_of(file);
  EXPECT_EQ(tokenizer.encode("a").value(), Ids{'a'});
  EXPECT_EQ(tokenizer.encode("a", {.add_special_tokens = true}).value(), (Ids{1, 2, 'a'}));
}

TEST(Tokenizer, a_configuration_says_how_texts_begin_and_end) {
  const TestDir dir;
  EXPECT_NE(Tokenizer::open(dir.path()).error().message.find("; copy one there"),
            std::string::npos);
  Json file = byte_level_file({});
  file.set("post_processor", json_of(R"({"type": "TemplateProcessing", "pair": [],
      "single": [{"SpecialToken": {"id": "x", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "special_tokens": {"x": {"id": "x", "ids": [1], "tokens": ["x"]}}})"));
  dir.write("tokenizer.json", dump_json(file));
  const auto ids = [&](const char* config) -> Ids {
    dir.write("tokenizer_config.json", config);
    return Tokenizer::open(dir.path()).value().encode("a", {.add_special_tokens = true}).value();
  };
  EXPECT_EQ(ids(R"({"bos_token": "b"})"), (Ids{1, 'a'}));
  EXPECT_EQ(ids(R"({"add_bos_token": false, "bos_token": "b"})"), Ids{'a'});
  EXPECT_EQ(ids(R"({"add_bos_token": true, "bos_token": {"content": "b"}, "add_eos_token": true,
                    "eos_token": "e"})"),
            (Ids{'b', 'a', 'e'}));
  EXPECT_EQ(ids(R"({"add_bos_token": true, "bos_token": null})"), Ids{'a'});
  dir.write("tokenizer_config.json", R"({"add_bos_token": true, "bos_token": "<odd>"})");
  EXPECT_NE(Tokenizer::open(dir.path()).error().message.find("\"<odd>\", which is no token"),
            std::string::npos);
}

TEST(Tokenizer, truncation_and_padding_of_training_are_left_off) {
  Json file = byte_level_file({});
  file.set("truncation", json_of(R"({"direction": "Right", "max_length": 2,
                                     "strategy": "LongestFirst", "stride": 0})"));
  file.set("padding", json_of(R"({"strategy": {"Fixed": 9}, "direction": "Left", "pad_id": 9})"));
  EXPECT_EQ(tokenizer_of(file).encode("vwxyz").value(), (Ids{'v', 'w', 'x', 'y', 'z'}));
}

TEST(Tokenizer, threads_share_one) {
  const Tokenizer tokenizer = Tokenizer::open(kTiny).value();
  const std::string text = read_file(GLINT_SOURCE_DIR "/LICENSE").value();
  const Ids expected = Tokenizer::open(kTiny).value().encode(text).value();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { EXPECT_EQ(tokenizer.encode(text).value(), expected); });
  }
  for (std::thread& thread : threads) thread.join();
}

struct Hostile {
  std::vector<std::string> path;
  const char* value;
  const char* message;  // a part of it
};

TEST(Tokenizer, refuses_by_name) {
  const Json good =
      with(byte_level_file({{"a", "b"}}), {"added_tokens"}, Json::Array{added_token(257, "<x>")});
  ASSERT_EQ(error_of(good), "");
  const Hostile cases[] = {
      {{"surprise"}, "1", "tokenizer.json: unsupported member \"surprise\""},
      {{"version"}, R"("2.0")", "unsupported version \"2.0\""},
      {{"model"}, "3", "model: expected an object, found an integer"},
      {{"model", "type"}, R"("Unigram")", "model: unsupported type \"Unigram\""},
      {{"model", "dropout"}, "0.1", "\"dropout\" is 0.1"},
      {{"model", "end_of_word_suffix"}, R"("</w>")", "\"end_of_word_suffix\" is set"},
      {{"model", "vocab"}, R"({"a": 0})", "model.vocab: the byte 0 has no token"},
      {{"model", "surprise"}, "1", "model: unsupported member \"surprise\""},
      {{"model", "vocab"}, "[]", "\"vocab\" is a list where an object belongs"},
      {{"model", "vocab", "a"}, "-1", "the id of \"a\" is -1"},
      {{"model", "vocab", "a"}, "99999999999", "the id of \"a\" is 99999999999"},
      {{"model", "vocab", "a"}, "1e300", "the id of \"a\" is 1e+300"},
      {{"model", "vocab", "a"}, "98", "the id 98 belongs to both \"a\" and \"b\""},
      {{"model", "vocab", "a"}, R"("97")", "the id of \"a\" is a text"},
      {{"model", "merges"},
       R"([["a", "b"], ["a", "zz"]])",
       "model.merges[1]: the token \"zz\" is not in the vocabulary"},
      {{"model", "merges"},
       R"(["a b c"])",
       "model.merges[0]: expected two tokens with a blank between them"},
      {{"model", "merges"}, R"([["a"]])", "model.merges[0]: expected a pair of texts"},
      {{"model", "merges"}, R"(["b b"])", "the token \"bb\" is not in the vocabulary"},
      {{"normalizer"}, R"({"type": "Precompiled", "x": 1})", "unsupported type \"Precompiled\""},
      {{"normalizer"}, R"({"type": "Nmt"})", "normalizer: unsupported type \"Nmt\""},
      {{"normalizer"},
       R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, {}]})",
       "normalizer.normalizers[1]: \"type\" is missing"},
      {{"pre_tokenizer"},
       R"({"type": "UnicodeScripts"})",
       "pre_tokenizer: unsupported type \"UnicodeScripts\""},
      {{"pre_tokenizer"},
       R"({"type": "ByteLevel", "add_prefix_space": false, "surprise": 1})",
       "unsupported member"},
      {{"decoder"}, R"({"type": "CTC", "pad_token": "x"})", "decoder: unsupported type \"CTC\""},
      {{"post_processor"},
       R"({"type": "Odd", "x": 1})",
       "post_processor: unsupported type \"Odd\""},
      {{"post_processor"},
       R"({"type": "BertProcessing", "cls": ["a", 1], "sep": ["b", 2]})",
       "post_processor: unsupported type \"BertProcessing\""},
      {{"post_processor"},
       R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "q", "type_id": 0}}],
                              "special_tokens": {}})",
       "\"q\" is not among special_tokens"},
      {{"post_processor"},
       R"({"type": "TemplateProcessing", "single": [], "special_tokens": {}})",
       "post_processor.single holds the text 0 times; only once is supported"},
      {{"added_tokens"}, "{}", "added_tokens: expected a list"},
      {{"added_tokens"}, R"([{"id": 1}])", "added_tokens[0]: \"content\" is missing"},
      {{"added_tokens"},
       R"([{"id": 5, "content": "q", "single_word": false, "lstrip": true, "rstrip": false,
                             "normalized": false, "special": false}])",
       "added_tokens[0]: \"lstrip\" of \"q\" is true; only false is supported"},
      {{"added_tokens"},
       R"([{"id": -5, "content": "q", "single_word": false, "lstrip": false, "rstrip": false,
                             "normalized": false, "special": false}])",
       "added_tokens[0]: \"id\" is -5"},
  };
  for (const Hostile& hostile : cases) {
    const std::string message = error_of(with(good, hostile.path, json_of(hostile.value)));
    EXPECT_NE(message.find(hostile.message), std::string::npos) << hostile.message << "\n"
                                                                << message;
  }
  for (const char* part : {"normalizer", "pre_tokenizer", "decoder", "post_processor"}) {
    EXPECT_NE(error_of(with(good, {part}, json_of(R"({"type": ""})")))
                  .find(str(part, ": unsupported type \"\"")),
              std::string::npos)
        << part;
  }
  const Json::Array copies(65, json_of(R"({"Sequence": {"id": "A", "type_id": 0}})"));
  const Json template_of_copies = Json::Object{
      {"type", "TemplateProcessing"}, {"single", copies}, {"special_tokens", Json::Object{}}};
  EXPECT_NE(error_of(with(good, {"post_processor"}, template_of_copies)).find("65 pieces"),
            std::string::npos);
  const Json twice = Json::Array{added_token(257, "<x>"), added_token(257, "<y>")};
  EXPECT_NE(error_of(with(good, {"added_tokens"}, twice))
                .find("the id 257 of \"<y>\" belongs to \"<x>\" too"),
            std::string::npos);
}

TEST(Tokenizer, deep_nesting_is_an_error) {
  Json normalizer = json_of(R"({"type": "NFC"})"),
       pre_tokenizer = json_of(R"({"type": "ByteLevel", "add_prefix_space": false})"),
       post_processor = json_of(R"({"type": "ByteLevel"})");
  for (int i = 0; i < 50; ++i) {
    normalizer = Json::Object{{"type", "Sequence"}, {"normalizers", Json::Array{normalizer}}};
    pre_tokenizer =
        Json::Object{{"type", "Sequence"}, {"pretokenizers", Json::Array{pre_tokenizer}}};
    post_processor =
        Json::Object{{"type", "Sequence"}, {"processors", Json::Array{post_processor}}};
  }
  const Json good = byte_level_file({});
  for (const auto& [key, value] : Json::Object{{"normalizer", normalizer},
                                               {"pre_tokenizer", pre_tokenizer},
                                               {"post_processor", post_processor}}) {
    EXPECT_NE(error_of(with(good, {key}, value)).find("nested too deeply"), std::string::npos)
        << key;
  }
}

TEST(Tokenizer, a_missing_or_broken_file_is_named) {
  EXPECT_NE(Tokenizer::open("/nowhere").error().message.find("/nowhere"), std::string::npos);
  EXPECT_NE(Tokenizer::parse("{\"model\": ").error().message.find("line 1"), std::string::npos);
  EXPECT_NE(Tokenizer::parse("[]").error().message.find("expected an object"), std::string::npos);
}

}  // namespace
}  // namespace glint
