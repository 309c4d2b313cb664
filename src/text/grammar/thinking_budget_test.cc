#include "text/grammar/thinking_budget.h"

#include <gtest/gtest.h>

#include "text/grammar/grammar_testing.h"

namespace glint {
namespace {

TokenId token(const char* text) { return *tiny_grammars().tokenizer.token_to_id(text); }

std::shared_ptr<TokenConstraint> limited(int max_tokens, std::shared_ptr<TokenConstraint> inner) {
  return limit_thinking(max_tokens, token("</think>"), {token("<tool_call>")}, std::move(inner));
}

TEST(ThinkingBudget, a_thought_that_is_too_long_is_ended) {
  const auto constraint = limited(2, nullptr);
  EXPECT_TRUE(tiny_grammars().allows(*constraint, token("b")));
  for (const char* text : {"a", "b"}) EXPECT_TRUE(constraint->accept(token(text)));
  EXPECT_FALSE(tiny_grammars().allows(*constraint, token("c")));
  EXPECT_TRUE(tiny_grammars().allows(*constraint, token("</think>")));
  EXPECT_FALSE(constraint->accept(token("c")));
  constraint->rollback(1);
  EXPECT_TRUE(tiny_grammars().allows(*constraint, token("c")));
  EXPECT_TRUE(constraint->accept(token("c")));
  EXPECT_TRUE(constraint->accept(token("</think>")));
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(constraint->accept(token("a")));
  constraint->rollback(6);  // </think> too
  EXPECT_FALSE(constraint->accept(token("a")));
}

TEST(ThinkingBudget, no_tokens_are_no_thought) {
  const auto constraint = limited(0, nullptr);
  EXPECT_FALSE(constraint->accept(token("a")));
  EXPECT_TRUE(constraint->accept(token("</think>")));
  EXPECT_TRUE(constraint->accept(token("a")));
}

TEST(ThinkingBudget, a_grammar_begins_where_the_thought_is_ended) {
  const GrammarSpec spec{.kind = GrammarSpec::Kind::kChoice, .choices = {"a", "b"}};
  const auto constraint = limited(1, tiny_grammars().constrain(spec, /*after_reasoning=*/true));
  EXPECT_TRUE(constraint->accept(token("x")));
  EXPECT_FALSE(constraint->accept(token("x")));
  EXPECT_TRUE(constraint->accept(token("</think>")));
  EXPECT_FALSE(constraint->accept(token("x")));
  EXPECT_TRUE(constraint->accept(token("b")));
}

}  // namespace
}  // namespace glint
