#include "text/grammar/grammar_cache.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

// The cache looks at no grammar: an address of its own is enough.
std::shared_ptr<const CompiledGrammar> grammar() {
  const auto owner = std::make_shared<int>();
  return {owner, reinterpret_cast<const CompiledGrammar*>(owner.get())};
}

TEST(GrammarCache, the_longest_unused_go_first) {
  GrammarCache cache(100);
  const auto a = grammar();
  EXPECT_EQ(cache.find("a"), nullptr);
  cache.add("a", a, 38);
  cache.add("b", grammar(), 38);
  ASSERT_NE(cache.find("a"), nullptr);
  EXPECT_EQ(cache.find("a")->value(), a);
  EXPECT_EQ(cache.num_bytes(), 80u);
  cache.add("c", grammar(), 38);  // b has to go
  EXPECT_EQ(cache.find("b"), nullptr);
  EXPECT_EQ(cache.find("a")->value(), a);
  EXPECT_NE(cache.find("c"), nullptr);
  EXPECT_EQ(cache.num_bytes(), 80u);
}

TEST(GrammarCache, what_is_too_large_is_not_kept) {
  GrammarCache cache(100);
  cache.add("a", grammar(), 1000);
  EXPECT_EQ(cache.find("a"), nullptr);
  EXPECT_EQ(cache.num_bytes(), 0u);
}

TEST(GrammarCache, errors_are_kept) {
  GrammarCache cache(100);
  cache.add("a", invalid("no"), 2);
  ASSERT_NE(cache.find("a"), nullptr);
  EXPECT_EQ(cache.find("a")->error().message, "no");
}

}  // namespace
}  // namespace glint
