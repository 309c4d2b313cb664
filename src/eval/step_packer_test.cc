#include "eval/step_packer.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/ceil_div.h"
#include "base/random.h"
#include "ops/kv_layout.h"

namespace glint {
namespace {

// Runs all steps and checks what every step must keep to; returns the number of steps.
int run_all(const TokenSequences& sequences, int tokens_per_step) {
  StepPacker packer(sequences, tokens_per_step);
  std::map<std::size_t, std::int64_t> done;                  // positions of each sequence
  std::map<std::size_t, std::vector<PageId>> pages_of_live;  // of sequences that have begun
  int steps = 0;
  std::size_t most_pages = 0;
  for (StepPacker::Step step = packer.next(); !step.parts.empty(); step = packer.next(), ++steps) {
    EXPECT_EQ(step.parts.size(), step.plan.slices.size());
    EXPECT_LE(step.plan.tokens.size(), static_cast<std::size_t>(tokens_per_step));
    std::multiset<PageId> used;
    std::size_t last = 0;
    for (std::size_t i = 0; i < step.parts.size(); ++i) {
      const StepPacker::Step::Part& part = step.parts[i];
      const RowSlice& slice = step.plan.slices[i];
      last = part.sequence;
      EXPECT_EQ(part.first, done[part.sequence]) << "positions come in order";
      EXPECT_EQ(slice.first, part.first);
      EXPECT_EQ(slice.count, part.count);
      EXPECT_EQ(slice.logit_rows, 0);
      EXPECT_GE(slice.num_pages * kPageSize, part.first + part.count);
      for (std::int64_t t = 0; t < part.count; ++t) {
        EXPECT_EQ(step.plan.tokens[slice.token_begin + t],
                  sequences[part.sequence][part.first + t]);
      }
      const std::vector<PageId> pages(step.plan.pages.begin() + slice.page_begin,
                                      step.plan.pages.begin() + slice.page_begin + slice.num_pages);
      used.insert(pages.begin(), pages.end());
      if (part.first > 0) {
        EXPECT_EQ(pages, pages_of_live[part.sequence]) << "a sequence keeps its pages";
      }
      pages_of_live[part.sequence] = pages;
      done[part.sequence] += part.count;
    }
    EXPECT_EQ(std::set<PageId>(used.begin(), used.end()).size(), used.size())
        << "no page has two owners";
    for (const PageId page : used) EXPECT_TRUE(page >= 0 && page < packer.pages_needed());
    most_pages = std::max(most_pages, used.size());
    const bool last_ended = done[last] == static_cast<std::int64_t>(sequences[last].size());
    EXPECT_EQ(packer.num_done(), last + last_ended);
  }
  for (std::size_t s = 0; s < sequences.size(); ++s)
    EXPECT_EQ(done[s], static_cast<std::int64_t>(sequences[s].size()));
  EXPECT_EQ(static_cast<std::size_t>(packer.pages_needed()), most_pages) << "and not a page more";
  return steps;
}

TEST(StepPacker, every_position_runs_once_in_full_steps) {
  Random random(7);
  for (int round = 0; round < 200; ++round) {
    TokenSequences sequences(1 + random.below(12));
    std::int64_t total = 0;
    for (std::vector<TokenId>& ids : sequences) {
      ids.resize(1 + random.below(round % 2 ? 10 : 300));
      for (TokenId& id : ids) id = static_cast<TokenId>(random.below(1000));
      total += static_cast<std::int64_t>(ids.size());
    }
    const int room = 1 + static_cast<int>(random.below(200));
    EXPECT_EQ(run_all(sequences, room), ceil_div(total, room));
  }
}

TEST(StepPacker, short_sequences_share_a_step) {
  EXPECT_EQ(run_all(TokenSequences(20, std::vector<TokenId>(5, 1)), 100), 1);
}

TEST(StepPacker, empty_sequences_are_skipped) {
  const TokenSequences sequences = {{}, {1, 2}, {}, {3}, {}};
  StepPacker packer(sequences, 8);
  const StepPacker::Step step = packer.next();
  ASSERT_EQ(step.parts.size(), 2u);
  EXPECT_EQ(step.parts[1].sequence, 3u);
  EXPECT_EQ(packer.num_done(), 5u);
  EXPECT_TRUE(packer.next().parts.empty());
}

}  // namespace
}  // namespace glint
