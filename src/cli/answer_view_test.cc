#include "cli/answer_view.h"

#include <gtest/gtest.h>

#include "base/str.h"

namespace glint {
namespace {

const Tokenizer& tokenizer() {
  static const Tokenizer tokenizer =
      Tokenizer::open(str(GLINT_SOURCE_DIR, "/models/glm5-tiny")).value();
  return tokenizer;
}

// What the screen shows of `text`, a token at a time: thinking in (), calls in [].
std::string shown(AnswerView& view, const std::string& text) {
  std::string out;
  auto last = AnswerView::Part::kContent;
  const auto show = [&](const std::vector<AnswerView::Piece>& pieces) {
    for (const auto& [part, piece] : pieces) {
      if (last == AnswerView::Part::kThinking && part != last) out += ")";
      if (part == AnswerView::Part::kThinking && part != last) out += "(";
      out += part == AnswerView::Part::kToolCall ? "[" + piece + "]" : piece;
      last = part;
    }
  };
  const std::vector<TokenId> tokens = tokenizer().encode(text).value();
  for (const TokenId token : tokens) show(view.feed(token));
  show(view.finish());
  return out;
}

TEST(AnswerView, thinking_ends_at_its_tag) {
  AnswerView view(tokenizer(), true);
  EXPECT_EQ(shown(view, "a</think>b"), "(a)b");
  EXPECT_EQ(dump_json(view.message()),
            R"({"role":"assistant","content":"b","reasoning_content":"a"})");
  AnswerView plain(tokenizer(), false);
  EXPECT_EQ(shown(plain, "b"), "b");
  EXPECT_EQ(plain.message().find("reasoning_content"), nullptr);
}

TEST(AnswerView, tool_calls_are_shown_whole_and_kept) {
  AnswerView view(tokenizer(), false);
  EXPECT_EQ(
      shown(view,
            "x<tool_call>f<arg_key>a</arg_key><arg_value>[1, 2]</arg_value><arg_key>b</arg_key>"
            "<arg_value>12:00</arg_value></tool_call><tool_call>g</tool_call>"),
      R"(x[f {"a": [1, 2], "b": "12:00"}][g {}])");
  EXPECT_EQ(view.tool_calls().size(), 2u);
  EXPECT_NE(view.message().find("tool_calls"), nullptr);
}

TEST(AnswerView, an_unfinished_call_is_no_call) {
  AnswerView view(tokenizer(), false);
  EXPECT_EQ(shown(view, "x<tool_call>f<arg_key>a"), "x");
  EXPECT_TRUE(view.tool_calls().empty());
}

TEST(AnswerView, characters_are_never_cut) {
  AnswerView view(tokenizer(), true);
  EXPECT_EQ(shown(view, "\xc3\xa9\xe2\x82\xac</think>\xf0\x9f\x98\x80"),
            "(\xc3\xa9\xe2\x82\xac)\xf0\x9f\x98\x80");
}

}  // namespace
}  // namespace glint
