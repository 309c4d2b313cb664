#include "runtime/step_rows.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

// A row: its position, its token, and whether it wants logits.
using Row = std::tuple<int, TokenId, bool>;

std::vector<Row> rows_in(const StepRows& rows) {
  std::vector<Row> all;
  for (const RowSlice& slice : rows.slices) {
    EXPECT_EQ(slice.token_begin, std::ssize(all));
    for (int i = 0; i < slice.count; ++i) {
      all.push_back(
          {slice.first + i, rows.tokens[all.size()], i >= slice.count - slice.logit_rows});
    }
  }
  return all;
}

TEST(SplitRows, keeps_every_row_in_its_place) {
  StepRows all = {.step = 7};
  const std::vector<PageId> pages = {4, 9};
  all.add(60, std::vector<TokenId>{1, 2, 3, 4, 5}, pages, 2);
  all.add(0, std::vector<TokenId>{6}, std::span(pages).first(1), 1);
  all.add(9, std::vector<TokenId>{7, 8, 9}, std::span(pages).first(1), 3);
  for (const auto& ends :
       std::vector<std::vector<std::int64_t>>{{9}, {4, 9}, {0, 0, 9}, {1, 5, 5, 8, 9}, {9, 9}}) {
    std::vector<Row> joined;
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const StepRows part = split_rows(all, ends)[i];
      EXPECT_EQ(part.step, 7u);
      EXPECT_EQ(std::ssize(part.tokens), ends[i] - begin);
      const std::vector<Row> rows = rows_in(part);
      joined.insert(joined.end(), rows.begin(), rows.end());
      for (const RowSlice& slice : part.slices) {
        EXPECT_EQ(part.pages[slice.page_begin], 4);
        EXPECT_GE(slice.num_pages * 64, slice.first + slice.count);
      }
      begin = ends[i];
    }
    EXPECT_EQ(joined, rows_in(all));
  }
}

TEST(SplitRows, members_have_as_many_as_it_goes) {
  EXPECT_EQ(first_row_of(7, 0, 3), 0);
  EXPECT_EQ(first_row_of(7, 1, 3), 2);
  EXPECT_EQ(first_row_of(7, 3, 3), 7);
  EXPECT_EQ(first_row_of(1, 1, 2), 0);
}

}  // namespace
}  // namespace glint
