#include "runtime/step_graphs.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

using Rows = std::vector<std::int64_t>;

TEST(GraphWishes, choose_the_sizes_of_graphs) {
  EXPECT_EQ(sizes_of({}, 5, 64).rows, (Rows{1, 2, 4, 8}));
  EXPECT_EQ(sizes_of({}, 100, 512).rows.back(), 128);
  EXPECT_EQ(sizes_of({.most = 4}, 256, 512).rows, (Rows{1, 2, 4}));
  EXPECT_EQ(sizes_of({.most = 1024}, 8, 64).rows, (Rows{1, 2, 4, 8}));
  EXPECT_EQ(sizes_of({.rows = {16, 1, 4, 4, 256}}, 10, 64).rows, (Rows{1, 4, 16}));
  EXPECT_EQ(sizes_of({.rows = {1, 4}}, 10, 64).rows, (Rows{1, 4}));
  const GraphSizes exact = sizes_of({.pads = false, .rows = {1, 4, 16}}, 10, 64);
  EXPECT_EQ(exact.rows, (Rows{1, 4}));
  EXPECT_FALSE(exact.pads);
  EXPECT_TRUE(sizes_of({.eager = true, .rows = {4}}, 10, 64).rows.empty());
}

TEST(GraphWishes, have_no_graph_of_more_rows_than_a_step) {
  EXPECT_EQ(sizes_of({}, 256, 64).rows.back(), 64);
  EXPECT_EQ(sizes_of({}, 500, 500).rows.back(), 500);
  EXPECT_EQ(sizes_of({.rows = {4, 512}}, 256, 300).rows, (Rows{4, 300}));
  EXPECT_EQ(sizes_of({}, 256, 300).most, 300) << "with drafts";
}

// As many as are recorded, of the lengths that a server plans for.
TEST(StepGraphs, are_of_few_sizes) {
  EXPECT_EQ(graph_pages(1, 2048, 512), 32);
  EXPECT_EQ(graph_pages(33, 2048, 512), 128);
  EXPECT_EQ(graph_pages(129, 2048, 512), 512);
  EXPECT_EQ(graph_pages(129, 2048, 300), 300);
  EXPECT_EQ(graph_pages(3, 64, 512), 4);
  EXPECT_EQ(count_graphs({.rows = {1, 2, 4}}, 2048, 32768), 9);
  EXPECT_EQ(count_graphs({.rows = {1}}, 2048, 2048), 1);
  EXPECT_EQ(count_graphs({}, 2048, 32768), 0);
  EXPECT_EQ(count_graphs({.rows = {1, 2, 4}, .most = 6}, 2048, 2048, 2), 5);
}

}  // namespace
}  // namespace glint
