#include "runtime/memory_plan.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

// 100 GiB, of which 60 are free beside 30 of weights; a page is 1 MiB.
MemoryNeeds needs() {
  return {.total = 100 * kGiB,
          .available = 60 * kGiB,
          .weights = 30 * kGiB,
          .temporaries = 5 * kGiB,
          .page_bytes = 1 << 20,
          .max_seq_len = 6400,
          .max_running = 64};
}

MemoryPlan plan(const MemoryNeeds& needs) { return plan_memory(needs).value(); }

TEST(MemoryPlan, each_fraction_has_the_meaning_of_its_engine) {
  MemoryNeeds n = needs();
  n.share = MemoryShare::kOfTotal;
  n.fraction = 0.8;
  EXPECT_EQ(plan(n).num_pages, (80 - 30 - 5) * 1024);
  n.share = MemoryShare::kWeightsAndCache;
  EXPECT_EQ(plan(n).num_pages, (80 - 30) * 1024);
  n.share = MemoryShare::kOfFree;
  EXPECT_EQ(plan(n).num_pages, 44 * 1024);
  EXPECT_STREQ(plan(n).limited_by, "fraction");
  EXPECT_EQ(plan(n).cache_bytes, 44 * kGiB);
}

TEST(MemoryPlan, no_more_than_there_is) {
  MemoryNeeds n = needs();
  n.share = MemoryShare::kOfTotal;
  n.fraction = 1;
  EXPECT_EQ(plan(n).num_pages, 55 * 1024);
  EXPECT_STREQ(plan(n).limited_by, "free memory");
}

TEST(MemoryPlan, without_a_fraction_it_is_what_requests_can_use) {
  MemoryNeeds n = needs();
  EXPECT_EQ(plan(n).num_pages, 64 * 100);
  EXPECT_STREQ(plan(n).limited_by, "requests");
  n.max_running = 1000;
  EXPECT_EQ(plan(n).num_pages, 55 * 512);
  EXPECT_STREQ(plan(n).limited_by, "free memory");
  n.max_running = 1 << 30;
  n.available = std::int64_t{1} << 60;
  EXPECT_LE(std::int64_t{plan(n).num_pages} * kPageSize, std::int64_t{1} << 31);
}

TEST(MemoryPlan, mapped_weights_count_as_used_where_they_fit) {
  MemoryNeeds n = needs();
  n.weights_are_mapped = true;
  n.share = MemoryShare::kOfFree;
  n.fraction = 1;
  EXPECT_EQ(plan(n).num_pages, 25 * 1024);
  n.weights = 700 * kGiB;  // a model larger than memory
  EXPECT_EQ(plan(n).num_pages, 55 * 256);
}

TEST(MemoryPlan, one_sequence_must_fit) {
  MemoryNeeds n = needs();
  n.share = MemoryShare::kOfTotal;
  n.fraction = 0.35 + 50.0 / 102400;
  const std::string message = plan_memory(n).error().message;
  EXPECT_NE(message.find("--max-model-len 3200"), std::string::npos) << message;
  n.fraction = 0.1;
  EXPECT_EQ(plan_memory(n).error().code, ErrorCode::kResourceExhausted);
  n.num_pages = 100;
  EXPECT_EQ(plan(n).num_pages, 100);
  EXPECT_STREQ(plan(n).limited_by, "num_pages");
  n.num_pages = 99;
  EXPECT_FALSE(plan_memory(n).ok());
}

}  // namespace
}  // namespace glint
