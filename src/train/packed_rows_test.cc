#include "train/packed_rows.h"

#include <gtest/gtest.h>

#include "ops/kv_layout.h"

namespace glint {
namespace {

TrainSequence counting(int count, int from_then_on_other = 1 << 20, int other = 0) {
  TrainSequence sequence;
  for (int i = 0; i < count; ++i) {
    sequence.ids.push_back(i < from_then_on_other ? i : i + other);
  }
  return sequence;
}

TEST(PackedRows, a_prompt_of_several_answers_has_its_rows_once) {
  // A prompt of 70 tokens, answers of 5, 3 and 60.
  const std::vector<TrainSequence> group = {counting(75), counting(73, 70, 1000),
                                            counting(130, 70, 2000)};
  const PackedRows packed = pack(group, true);
  EXPECT_EQ(packed.size(), 75 + 3 + 60);
  EXPECT_EQ(packed.shared, (std::vector<std::int64_t>{0, 70, 70}));
  EXPECT_EQ(packed.row_of[1][69], 69);
  EXPECT_EQ(packed.row_of[1][70], 75);
  EXPECT_EQ(packed.row_of[2][129], 137);
  // The first page is all of theirs; the six keys after it are copied into each answer's own.
  EXPECT_EQ(packed.num_pages, 5);
  EXPECT_EQ(packed.rows.pages, (std::vector<PageId>{0, 1, 0, 2, 0, 3, 4}));
  ASSERT_EQ(packed.copies.size(), 2u);
  EXPECT_EQ(packed.copies[1].from, 64);
  EXPECT_EQ(packed.copies[1].to, 3 * kPageSize);
  EXPECT_EQ(packed.copies[1].count, 6);
  EXPECT_EQ(packed.rows.slices[2].first, 70);
}

// The second leaves the first at 10 and the third the second at 20: copies are of what was
// computed, never of copies.
TEST(PackedRows, copies_are_of_the_rows_that_were_computed) {
  const PackedRows packed =
      pack(std::vector{counting(40), counting(40, 10, 1000), counting(40, 10, 1000),
                       [] {
                         TrainSequence last = counting(20, 10, 1000);
                         last.ids.resize(40, 7);
                         return last;
                       }()},
           true);
  EXPECT_EQ(packed.size(), 40 + 30 + 0 + 20);
  ASSERT_EQ(packed.copies.size(), 3u);
  EXPECT_EQ(packed.copies[0].from, 0);
  EXPECT_EQ(packed.copies[1].from, 0);
  EXPECT_EQ(packed.copies[1].count, 10);
  EXPECT_EQ(packed.copies[2].from, kPageSize + 10);
  EXPECT_EQ(packed.copies[2].to, 2 * kPageSize + 10);
  EXPECT_EQ(packed.copies[2].count, 10);
}

TEST(PackedRows,
     a_loss_is_of_tokens_with_a_weight_and_the_first_of_each_answer_has_the_prompts_row) {
  std::vector<TrainSequence> group = {counting(12), counting(12, 10, 1000)};
  for (TrainSequence& one : group) {
    one.weights.assign(12, 0);
    one.weights[10] = one.weights[11] = 1;
  }
  const LossRows loss = loss_rows(group, pack(group, true), 1);
  EXPECT_EQ(loss.rows, (std::vector<std::int32_t>{9, 10, 9, 12}));
  EXPECT_EQ(loss.ids, (std::vector<std::int32_t>{10, 11, 1010, 1011}));
  EXPECT_EQ(loss.places[2].sequence, 1u);
  EXPECT_EQ(loss.places[2].token, 10);
}

TEST(PackedRows, parts_have_all_rows_between_them_and_the_pages_of_all) {
  const PackedRows all = pack(std::vector{counting(100), counting(3), counting(10)}, false);
  std::vector<TokenId> tokens;
  for (int part = 0; part < 2; ++part) {
    const PackedRows mine = part_of(all, part, 2);
    EXPECT_EQ(mine.rows.all_tokens, 113);
    EXPECT_EQ(mine.num_pages, all.num_pages);
    tokens.insert(tokens.end(), mine.rows.tokens.begin(), mine.rows.tokens.end());
  }
  EXPECT_EQ(tokens, all.rows.tokens);
  const PackedRows second = part_of(all, 1, 2);
  ASSERT_EQ(second.rows.slices.size(), 3u);
  EXPECT_EQ(second.rows.slices[0].first, 56);
  EXPECT_EQ(second.rows.slices[0].num_pages, 2);
  EXPECT_EQ(second.row_of[0][55], -1);
  EXPECT_EQ(second.row_of[0][56], 0);
  EXPECT_EQ(second.row_of[2][9], 56);
  EXPECT_EQ(part_of(pack(std::vector{counting(1)}, false), 0, 2).size(), 0);
}

TEST(PackedRows, the_draft_layer_sees_the_next_token_and_shares_nothing) {
  const PackedRows draft = pack_for_draft(std::vector{counting(3), counting(3)});
  EXPECT_EQ(draft.rows.tokens, (std::vector<TokenId>{-1, 2, -1, -1, 2, -1}));
  EXPECT_TRUE(draft.copies.empty());
}

}  // namespace
}  // namespace glint
