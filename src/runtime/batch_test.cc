#include "runtime/batch.h"

#include <gtest/gtest.h>

#include "backends/cpu/cpu_ops.h"
#include "base/thread_pool.h"
#include "tensor/transfer.h"

namespace glint {
namespace {

std::vector<std::int32_t> ints(const Tensor& tensor) {
  const std::int32_t* data = tensor.ptr<std::int32_t>();
  return {data, data + tensor.size()};
}

struct Fixture {
  ThreadPool pool{1};
  CpuOps ops{best_cpu_isa().value(), pool};
  Arena arena{ops.device()};
  std::vector<std::int32_t> last = {70, 71, 72}, lengths = {5, 6, 4};
  SeatTensors seats = {.last = upload(last, {3}, arena), .lengths = upload(lengths, {3}, arena)};
};

// A table of as many positions, whose values nobody reads.
Tensor rope_table(std::int64_t positions) {
  static std::byte none;
  return Tensor(&none, DType::kF32, {positions, 4});
}

TEST(Batch, slices_become_positions_slots_and_rows_that_want_logits) {
  Fixture f;
  StepRows plan;
  const std::vector<TokenId> a = {7, 8, 9}, b = {5};
  plan.add(62, a, std::vector<PageId>{4, 1}, 2);  // crosses from its page 4 to its page 1
  plan.add(0, b, std::vector<PageId>{3}, 1);
  const Batch batch = build_batch(plan, rope_table(100), f.seats, f.ops, f.arena);
  EXPECT_EQ(ints(batch.token_ids), (std::vector<std::int32_t>{7, 8, 9, 5}));
  EXPECT_EQ(ints(batch.view.positions), (std::vector<std::int32_t>{62, 63, 64, 0}));
  EXPECT_EQ(ints(batch.view.slots),
            (std::vector<std::int32_t>{4 * 64 + 62, 4 * 64 + 63, 64, 3 * 64}));
  EXPECT_EQ(ints(batch.view.seqs), (std::vector<std::int32_t>{0, 0, 0, 1}));
  EXPECT_EQ(ints(batch.view.page_table), (std::vector<std::int32_t>{4, 1, 3, -1}));
  EXPECT_EQ(batch.view.end, 65);
  EXPECT_EQ(ints(batch.logit_rows), (std::vector<std::int32_t>{1, 2, 3}));
}

TEST(Batch, a_token_that_the_host_does_not_know_is_the_last_of_its_seat_at_its_place) {
  Fixture f;
  StepRows rows;
  rows.add(6, std::vector<TokenId>{kPendingToken}, std::vector<PageId>{0}, 1);
  rows.add(0, std::vector<TokenId>{kPendingToken, 4}, std::vector<PageId>{1}, 1);
  rows.slices[0].seat = 2;
  rows.slices[0].from_length = -1;
  const Batch batch = build_batch(rows, rope_table(100), f.seats, f.ops, f.arena);
  EXPECT_EQ(ints(batch.token_ids), (std::vector<std::int32_t>{72, -1, 4}));
  EXPECT_EQ(ints(batch.view.positions), (std::vector<std::int32_t>{3, 0, 1}));
  EXPECT_EQ(batch.view.end, 7);  // at the most
}

TEST(BatchDeath, pages_must_cover_the_slice) {
  Fixture f;
  StepRows plan;
  const std::vector<TokenId> tokens = {1, 2};
  plan.add(63, tokens, std::vector<PageId>{0}, 0);
  EXPECT_DEATH(build_batch(plan, rope_table(100), f.seats, f.ops, f.arena), "has 1 pages");
}

TEST(BatchDeath, the_rotary_table_must_cover_the_positions) {
  Fixture f;
  StepRows plan;
  plan.add(63, std::vector<TokenId>{1}, std::vector<PageId>{0}, 0);
  EXPECT_DEATH(build_batch(plan, rope_table(63), f.seats, f.ops, f.arena),
               "beyond the rotary table");
}

}  // namespace
}  // namespace glint
