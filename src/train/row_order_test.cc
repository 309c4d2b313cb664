#include "train/row_order.h"

#include <gtest/gtest.h>

#include <set>

namespace glint {
namespace {

TEST(RowOrder, EachEpochGoesThroughAllRowsInItsOwnOrder) {
  RowOrder order(50, 42, true);
  std::vector<std::size_t> first, second;
  for (std::uint64_t i = 0; i < 50; ++i) first.push_back(order.row_at(i));
  for (std::uint64_t i = 50; i < 100; ++i) second.push_back(order.row_at(i));
  EXPECT_EQ(std::set<std::size_t>(first.begin(), first.end()).size(), 50u);
  EXPECT_EQ(std::set<std::size_t>(second.begin(), second.end()).size(), 50u);
  EXPECT_NE(first, second);
  // A training that goes on finds the same rows.
  RowOrder again(50, 42, true);
  EXPECT_EQ(again.row_at(77), second[27]);
  EXPECT_EQ(again.row_at(3), first[3]);
  RowOrder plain(5, 42, false);
  EXPECT_EQ(plain.row_at(7), 2u);
}

}  // namespace
}  // namespace glint
