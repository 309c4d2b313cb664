#include "runtime/serve_memory.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

// 1,000 MiB, of which 900 are free; weights and steps take 100 and 50; a page takes one.
ServeMemory memory_of(bool on_host) {
  return {.page = kMiB,
          .weights = 100 * kMiB,
          .working = 50 * kMiB,
          .total = 1000 * kMiB,
          .available = 900 * kMiB,
          .on_host = on_host,
          .host_available = 900 * kMiB};
}

int pages_for(CacheWishes wishes, bool on_host = true) {
  wishes.max_running = 1000;
  wishes.max_model_len = 64 * 10;
  const Result<CachePlan> plan = plan_cache(wishes, memory_of(on_host));
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return plan.value().pages;
}

TEST(CachePlan, each_wish_has_its_servers_meaning) {
  EXPECT_EQ(pages_for({}), 375);
  EXPECT_EQ(pages_for({}, false), 750);
  EXPECT_EQ(pages_for({.share = 0.5}), 350);
  EXPECT_EQ(pages_for({.share_with_weights = 0.5}, false), 400);
  EXPECT_EQ(pages_for({.share_of_free = 0.2}, false), 150);
  EXPECT_EQ(pages_for({.bytes = 77 * kMiB, .share = 0.5}), 77);
  EXPECT_EQ(pages_for({.tokens = 641, .bytes = 77 * kMiB}), 11);
}

TEST(CachePlan, takes_no_more_than_can_be_used_and_than_there_is) {
  CacheWishes wishes = {.max_running = 2, .max_model_len = 64 * 10};
  EXPECT_EQ(plan_cache(wishes, memory_of(true)).value().pages, 22);
  wishes.bytes = 1000 * kMiB;
  EXPECT_EQ(plan_cache(wishes, memory_of(true)).error().message,
            "a KV cache of 1000 MiB does not fit: 900 MiB are free; ask for less");
  wishes = {.bytes = 3 * kMiB, .max_model_len = 64 * 10};
  EXPECT_EQ(plan_cache(wishes, memory_of(true)).error().message,
            "the KV cache would hold 192 tokens, fewer than the context of 640; give it more "
            "memory, or a smaller --max-model-len");
  wishes.may_shorten = true;
  EXPECT_EQ(plan_cache(wishes, memory_of(true)).value().max_model_len, 192);
  wishes.bytes = kMiB / 2;
  EXPECT_EQ(plan_cache(wishes, memory_of(true)).error().message,
            "a KV cache of 512 KiB holds no page of 64 tokens; give it 1 MiB (1,048,576 bytes) or "
            "more");
}

TEST(CachePlan, of_weights_that_leave_no_page_it_says_so) {
  ServeMemory memory = memory_of(true);
  memory.weights = 2048 * kMiB;
  EXPECT_EQ(plan_cache({}, memory).error().message,
            "weights and steps of 2.049 GiB do not fit: 900 MiB are free; weights that stay in the "
            "files of a checkpoint (--pack auto) take none, and a smaller "
            "--max-num-batched-tokens takes less");
}

}  // namespace
}  // namespace glint
