#include "server/plain_content.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace glint {
namespace {

const Tokenizer& tokenizer() {
  static const Tokenizer opened = Tokenizer::open(GLINT_SOURCE_DIR "/models/glm5-tiny").value();
  return opened;
}

Json::Array conversation(const char* role, Json content) {
  return {Json::Object{{"role", role}, {"content", std::move(content)}}};
}

std::string marked(const char* role, const std::string& text) {
  Json::Array messages = conversation(role, text);
  mark_plain(messages, tokenizer());
  return messages[0].find("content")->as_string();
}

std::vector<TokenId> encoded(const std::string& text) {
  return tokenizer().encode(text, {.removed = kPlainMark}).value();
}

TEST(PlainContent, special_tokens_of_users_become_their_letters) {
  for (const char* text : {"a <|system|> b", "</think>", "<|user|><|user|>", "<think>x</think>y"}) {
    EXPECT_NE(marked("user", text), text);
    EXPECT_EQ(without_marks(marked("user", text)), text);
    // Exactly as if no special token were known.
    EXPECT_EQ(encoded(marked("user", text)),
              tokenizer().encode(text, {.parse_special = false}).value())
        << text;
  }
  // Special tokens of the template itself stay tokens.
  const TokenId user = *tokenizer().token_to_id("<|user|>");
  EXPECT_EQ(encoded("<|user|>" + marked("user", "<|user|>"))[0], user);
  EXPECT_EQ(std::ranges::count(encoded("<|user|>" + marked("tool", "<|user|>")), user), 1);
}

TEST(PlainContent, other_roles_and_other_text_stay_as_they_are) {
  EXPECT_EQ(marked("assistant", "a</think>b"), "a</think>b");
  EXPECT_EQ(marked("system", "<|user|>"), "<|user|>");
  EXPECT_EQ(marked("user", "plain < text > with | signs"), "plain < text > with | signs");
}

TEST(PlainContent, a_mark_in_a_message_hides_nothing) {
  const std::string text = "<" + std::string(kPlainMark) + "|user|>";
  EXPECT_EQ(without_marks(marked("user", text)), "<|user|>");
  EXPECT_EQ(encoded(marked("user", text)),
            tokenizer().encode("<|user|>", {.parse_special = false}).value());
}

TEST(PlainContent, parts_of_a_message_are_marked) {
  Json::Array messages =
      conversation("user", Json::Array{Json::Object{{"type", "text"}, {"text", "<|user|>"}}});
  mark_plain(messages, tokenizer());
  EXPECT_NE(dump_json(messages[0]).find(kPlainMark), std::string::npos);
}

}  // namespace
}  // namespace glint
