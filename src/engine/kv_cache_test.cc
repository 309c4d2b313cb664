#include "engine/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/random.h"

namespace glint {
namespace {

using Tokens = std::vector<TokenId>;

Tokens sequence(int n, TokenId first = 0) {
  Tokens tokens(static_cast<std::size_t>(n));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// A sequence that computed `tokens` and published them.
PageTable computed(KvCache& cache, const Tokens& tokens, std::uint64_t salt = 0) {
  PageTable table;
  EXPECT_TRUE(cache.grow(table, static_cast<int>(tokens.size())));
  cache.publish(table, tokens, static_cast<int>(tokens.size()), salt);
  return table;
}

Tokens pages_of(const PageTable& table) { return {table.pages().begin(), table.pages().end()}; }

TEST(KvCache, tables_give_their_pages_back) {
  KvCache cache({.num_pages = 4, .page_size = 4});
  {
    PageTable table;
    ASSERT_TRUE(cache.grow(table, 5));
    EXPECT_EQ(table.pages().size(), 2u);
    ASSERT_TRUE(cache.grow(table, 8));
    EXPECT_EQ(table.pages().size(), 2u);
    EXPECT_EQ(cache.num_used_pages(), 2);
    EXPECT_EQ(cache.num_exclusive_pages(table), 2);
    PageTable moved = std::move(table);
    EXPECT_EQ(cache.num_used_pages(), 2);
    const PageTable* const tables[] = {&table, &moved};
    cache.check_invariants(tables);
  }
  EXPECT_EQ(cache.num_free_pages(), 4);
  cache.check_invariants({});
}

TEST(KvCache, grow_is_all_or_nothing) {
  KvCache cache({.num_pages = 3, .page_size = 4});
  PageTable table;
  ASSERT_TRUE(cache.grow(table, 4));
  EXPECT_FALSE(cache.grow(table, 13));
  EXPECT_EQ(table.pages().size(), 1u);
  EXPECT_EQ(cache.num_free_pages(), 2);
  EXPECT_TRUE(cache.grow(table, 12));
}

TEST(KvCache, the_longest_known_prefix_is_adopted_in_whole_pages) {
  KvCache cache({.num_pages = 10, .page_size = 4});
  const Tokens tokens = sequence(11);
  PageTable first = computed(cache, tokens);

  PageTable second;
  Tokens longer = sequence(20);
  EXPECT_EQ(cache.cached(longer, 0).tokens, 8);
  EXPECT_EQ(cache.cached(longer, 0).free_pages, 0);
  EXPECT_EQ(cache.adopt_prefix(second, longer, 0), 8);
  EXPECT_TRUE(std::equal(second.pages().begin(), second.pages().end(), first.pages().begin()));
  EXPECT_EQ(cache.num_used_pages(), 3);

  PageTable third;
  longer[5] = 99;
  EXPECT_EQ(cache.adopt_prefix(third, longer, 0), 4);
  PageTable fourth;
  longer[0] = 99;
  EXPECT_EQ(cache.adopt_prefix(fourth, longer, 0), 0);
  const PageTable* const tables[] = {&first, &second, &third, &fourth};
  cache.check_invariants(tables);
}

TEST(KvCache, one_token_is_always_left_to_run) {
  KvCache cache({.num_pages = 4, .page_size = 4});
  { const PageTable table = computed(cache, sequence(8)); }
  PageTable table;
  EXPECT_EQ(cache.adopt_prefix(table, sequence(8), 0), 4);
}

TEST(KvCache, salts_do_not_share) {
  KvCache cache({.num_pages = 8, .page_size = 4});
  { const PageTable table = computed(cache, sequence(9), 1); }
  PageTable other, same;
  EXPECT_EQ(cache.adopt_prefix(other, sequence(9), 2), 0);
  EXPECT_EQ(cache.adopt_prefix(same, sequence(9), 1), 8);
}

TEST(KvCache, equal_pages_after_different_prefixes_are_different) {
  KvCache cache({.num_pages = 8, .page_size = 2});
  const PageTable first = computed(cache, {1, 1, 5, 5, 0});
  const PageTable second = computed(cache, {2, 2, 5, 5, 0});
  EXPECT_EQ(cache.num_used_pages(), 6);
  PageTable third;
  EXPECT_EQ(cache.adopt_prefix(third, Tokens{2, 2, 5, 5, 9}, 0), 4);
  EXPECT_EQ(pages_of(third), (Tokens{second.pages()[0], second.pages()[1]}));
}

TEST(KvCache, a_prefix_computed_twice_is_kept_once) {
  KvCache cache({.num_pages = 8, .page_size = 4});
  PageTable first, second;
  ASSERT_TRUE(cache.grow(first, 9) && cache.grow(second, 9));
  EXPECT_EQ(cache.num_used_pages(), 6);
  cache.publish(first, sequence(9), 9, 0);
  cache.publish(second, sequence(9), 9, 0);
  EXPECT_EQ(cache.num_used_pages(), 4);
  EXPECT_EQ(first.pages()[1], second.pages()[1]);
  EXPECT_NE(first.pages()[2], second.pages()[2]);
  EXPECT_EQ(cache.num_exclusive_pages(second), 1);
}

TEST(KvCache, publishing_goes_on_where_it_stopped) {
  KvCache cache({.num_pages = 8, .page_size = 4});
  const Tokens tokens = sequence(16);
  PageTable table;
  ASSERT_TRUE(cache.grow(table, 16));
  for (const int num_computed : {3, 4, 4, 11, 16}) cache.publish(table, tokens, num_computed, 0);
  PageTable other;
  EXPECT_EQ(cache.adopt_prefix(other, sequence(17), 0), 16);
}

TEST(KvCache, with_a_draft_layer_the_token_after_a_page_must_match) {
  KvCache cache({.num_pages = 8, .page_size = 4, .match_next_token = true});
  Tokens tokens = sequence(9);
  const PageTable table = computed(cache, tokens);
  {
    PageTable same;
    EXPECT_EQ(cache.adopt_prefix(same, sequence(12), 0), 8);
  }
  tokens[8] = 77;  // the draft row of position 7 is of another token: that page is useless
  PageTable other;
  EXPECT_EQ(cache.adopt_prefix(other, tokens, 0), 4);
  // Both continuations of the page can be cached.
  ASSERT_TRUE(cache.grow(other, 9));
  cache.publish(other, tokens, 9, 0);
  PageTable first, second;
  EXPECT_EQ(cache.adopt_prefix(first, tokens, 0), 8);
  EXPECT_EQ(cache.adopt_prefix(second, sequence(9), 0), 8);
  EXPECT_NE(first.pages()[1], second.pages()[1]);
}

TEST(KvCache, with_a_draft_layer_a_page_is_published_only_with_its_next_token) {
  KvCache cache({.num_pages = 8, .page_size = 4, .match_next_token = true});
  PageTable table;
  ASSERT_TRUE(cache.grow(table, 8));
  cache.publish(table, sequence(8), 8, 0);
  PageTable other;
  EXPECT_EQ(cache.adopt_prefix(other, sequence(20), 0), 4);
}

TEST(KvCache, the_least_recently_used_prefix_is_evicted_from_its_end) {
  KvCache cache({.num_pages = 6, .page_size = 4});
  { const PageTable table = computed(cache, sequence(12, 0)); }
  { const PageTable table = computed(cache, sequence(12, 100)); }
  {
    PageTable table;  // used again: now the second is the older one
    EXPECT_EQ(cache.adopt_prefix(table, sequence(13, 0), 0), 12);
  }
  EXPECT_EQ(cache.num_free_pages(), 6);
  PageTable table;
  ASSERT_TRUE(cache.grow(table, 5));
  PageTable first, second;
  EXPECT_EQ(cache.adopt_prefix(first, sequence(13, 0), 0), 12);
  EXPECT_EQ(cache.adopt_prefix(second, sequence(13, 100), 0), 4);
  EXPECT_FALSE(cache.grow(second, 8));  // what is in use is never evicted
}

TEST(KvCache, a_flush_forgets_prefixes_and_what_is_in_use_is_never_published) {
  KvCache cache({.num_pages = 8, .page_size = 4});
  PageTable running = computed(cache, sequence(8));
  { const PageTable table = computed(cache, sequence(8, 50)); }
  cache.flush();
  ASSERT_TRUE(cache.grow(running, 16));
  cache.publish(running, sequence(16), 16, 0);
  PageTable table;
  EXPECT_EQ(cache.adopt_prefix(table, sequence(17), 0), 0);
  EXPECT_EQ(cache.adopt_prefix(table, sequence(17, 50), 0), 0);
  const PageTable* const tables[] = {&running, &table};
  cache.check_invariants(tables);
  running = {};
  EXPECT_EQ(cache.num_free_pages(), 8);
  cache.check_invariants({});
}

TEST(KvCache, nothing_is_shared_when_sharing_is_off) {
  KvCache cache({.num_pages = 8, .page_size = 4, .share_prefixes = false});
  { const PageTable table = computed(cache, sequence(9)); }
  PageTable table;
  EXPECT_EQ(cache.adopt_prefix(table, sequence(9), 0), 0);
}

TEST(KvCacheDeathTest, misuse_aborts) {
  EXPECT_DEATH(
      {
        PageTable table;
        KvCache cache({.num_pages = 2, .page_size = 4});
        (void)cache.grow(table, 4);
      },
      "outlives its cache");
  EXPECT_DEATH(
      {
        KvCache cache({.num_pages = 2, .page_size = 4});
        PageTable table;
        (void)cache.grow(table, 4);
        cache.adopt_prefix(table, sequence(9), 0);
      },
      "empty table");
}

// Random sequences over a tiny alphabet against a memory that holds, per slot, the whole prefix
// (hashed) that the slot's row was computed from.
struct RandomCache {
  struct Sequence {
    Tokens tokens;
    int num_computed = 0;
    std::uint64_t salt = 0;
    PageTable table;
  };

  RandomCache(const KvCacheConfig& config, std::uint64_t seed)
      : cache(config),
        random(seed),
        slots(static_cast<std::size_t>(config.num_pages * config.page_size)) {}

  std::uint64_t& slot(const Sequence& s, int position) {
    const PageId page = s.table.pages()[static_cast<std::size_t>(position / cache.page_size())];
    return slots[static_cast<std::size_t>(page * cache.page_size() + position % cache.page_size())];
  }

  static std::uint64_t row(const Sequence& s, int position, bool next) {
    std::uint64_t hash = s.salt;
    for (int i = 0; i <= position; ++i)
      hash = hash * 31 + static_cast<std::uint64_t>(s.tokens[i]) + 1;
    return next ? hash * 31 + static_cast<std::uint64_t>(s.tokens[position + 1]) : hash;
  }

  void start() {
    Sequence s;
    s.salt = random.below(2);
    for (std::uint32_t n = 2 + random.below(40); n > 0; --n)
      s.tokens.push_back(random.below(8) == 0 ? 1 : 0);
    s.num_computed = cache.adopt_prefix(s.table, s.tokens, s.salt);
    adopted += s.num_computed;
    sequences.push_back(std::move(s));
  }

  void run(Sequence& s, bool match_next) {
    const int left = static_cast<int>(s.tokens.size()) - 1 - s.num_computed;
    if (left == 0) return;
    const int end = s.num_computed + 1 + static_cast<int>(random.below(left));
    if (!cache.grow(s.table, end)) return;
    for (int i = s.num_computed; i < end; ++i) slot(s, i) = row(s, i, match_next);
    s.num_computed = end;
    cache.publish(s.table, s.tokens, end, s.salt);
  }

  void check(bool match_next) {
    std::vector<const PageTable*> tables;
    for (Sequence& s : sequences) {
      tables.push_back(&s.table);
      for (int i = 0; i < s.num_computed; ++i) ASSERT_EQ(slot(s, i), row(s, i, match_next));
    }
    cache.check_invariants(tables);
  }

  KvCache cache;
  Random random;
  std::vector<std::uint64_t> slots;
  std::vector<Sequence> sequences;
  std::int64_t adopted = 0;
};

TEST(KvCache, random_sequences_always_find_their_own_rows) {
  for (const bool match_next : {false, true}) {
    RandomCache world({.num_pages = 24, .page_size = 4, .match_next_token = match_next}, 7);
    for (int step = 0; step < 20000; ++step) {
      const std::uint32_t what = world.random.below(10);
      if (what < 2 && world.sequences.size() < 8) {
        world.start();
      } else if (!world.sequences.empty()) {
        const std::size_t which =
            world.random.below(static_cast<std::uint32_t>(world.sequences.size()));
        if (what < 9) {
          world.run(world.sequences[which], match_next);
        } else {
          world.sequences.erase(world.sequences.begin() + static_cast<std::ptrdiff_t>(which));
        }
      }
      if (world.random.below(2000) == 0) world.cache.flush();
      ASSERT_NO_FATAL_FAILURE(world.check(match_next));
    }
    EXPECT_GT(world.adopted, 3000);
  }
}

}  // namespace
}  // namespace glint
