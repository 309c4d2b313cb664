#include "text/grammar/grammar_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace glint {
namespace {

// The cache looks at no grammar: an address of its own is enough.
GrammarCache::Sized made(std::size_t bytes) {
  const auto owner = std::make_shared<int>();
  return {std::shared_ptr<const CompiledGrammar>(
              owner, reinterpret_cast<const CompiledGrammar*>(owner.get())),
          bytes};
}

TEST(GrammarCache, the_longest_unused_go_first) {
  GrammarCache cache(100);
  int num_made = 0;
  const auto get = [&](const char* key) {
    return cache.get(key, [&] { return ++num_made, made(39); }).value();
  };
  const auto a = get("a");
  get("b");
  EXPECT_EQ(get("a"), a);
  EXPECT_EQ(num_made, 2);
  EXPECT_EQ(cache.num_bytes(), 80u);
  get("c");  // b has to go
  EXPECT_EQ(get("a"), a);
  EXPECT_EQ(num_made, 3);
  get("b");
  EXPECT_EQ(num_made, 4);
  EXPECT_LE(cache.num_bytes(), 100u);
}

TEST(GrammarCache, what_is_too_large_is_given_but_not_kept) {
  GrammarCache cache(100);
  EXPECT_TRUE(cache.get("a", [] { return made(1000); }).ok());
  EXPECT_EQ(cache.num_bytes(), 0u);
}

TEST(GrammarCache, errors_are_not_kept) {
  GrammarCache cache(100);
  EXPECT_FALSE(cache.get("a", [] { return GrammarCache::Sized{invalid("no"), 0}; }).ok());
  EXPECT_TRUE(cache.get("a", [] { return made(1); }).ok());
}

TEST(GrammarCache, threads_that_want_the_same_wait_for_one) {
  GrammarCache cache(1000);
  std::atomic<int> num_made = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 50; ++k) {
        const auto grammar = cache.get(std::to_string(k), [&] { return ++num_made, made(1); });
        EXPECT_TRUE(grammar.ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_made, 50);
}

}  // namespace
}  // namespace glint
