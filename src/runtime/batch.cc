#include "runtime/batch.h"

#include <algorithm>

#include "base/str.h"

namespace glint {

BatchSizes BatchArrays::sizes() const {
  const std::int64_t S = std::ssize(slices) / 4;
  return {.sequences = S,
          .pages = S == 0 ? 1 : std::ssize(page_table) / S,
          .tokens = std::ssize(tokens),
          .logit_rows = std::ssize(logit_rows),
          .end = end,
          .all_tokens = all_tokens};
}

void BatchArrays::fit(std::int64_t sequences, std::int64_t rows, std::int64_t pages) {
  const auto n = static_cast<std::size_t>(sequences), p = static_cast<std::size_t>(pages);
  const auto before = static_cast<std::size_t>(sizes().pages);
  std::vector<std::int32_t> wider(n * p, -1);
  for (std::size_t s = 0; s * 4 < slices.size(); ++s) {
    const auto row = page_table.begin() + static_cast<std::ptrdiff_t>(s * before);
    std::copy_n(row, std::min(before, p), wider.begin() + static_cast<std::ptrdiff_t>(s * p));
  }
  page_table = std::move(wider);
  const auto end_of_rows = static_cast<std::int32_t>(tokens.size());
  while (slices.size() < 4 * n) slices.insert(slices.end(), {end_of_rows, 0, 0, -1});
  tokens.resize(static_cast<std::size_t>(rows), kPendingToken);
  logit_rows.resize(static_cast<std::size_t>(rows), 0);
}

BatchArrays gather(const StepRows& rows, std::int64_t positions, std::int64_t seats) {
  BatchArrays arrays = {.tokens = rows.tokens, .all_tokens = rows.all_tokens};
  std::int64_t P = 1;
  for (const RowSlice& slice : rows.slices) {
    P = std::max<std::int64_t>(P, slice.num_pages);
    arrays.end = std::max<std::int64_t>(arrays.end, slice.first + slice.count);
  }
  GLINT_CHECK(arrays.end <= positions, "a position beyond the rotary table");
  arrays.page_table.assign(rows.slices.size() * static_cast<std::size_t>(P), -1);
  auto pages = arrays.page_table.begin();
  for (const RowSlice& slice : rows.slices) {
    GLINT_CHECK(slice.first + slice.count <= slice.num_pages * kPageSize,
                str("a slice ends at position ", slice.first + slice.count, " but has ",
                    slice.num_pages, " pages"));
    GLINT_CHECK(slice.seat < seats, "a seat outside the table of tokens");
    std::copy_n(rows.pages.begin() + slice.page_begin, slice.num_pages, pages);
    pages += P;
    arrays.slices.insert(arrays.slices.end(),
                         {slice.token_begin, slice.count,
                          slice.seat < 0 ? slice.first : slice.from_length, slice.seat});
    for (int i = slice.count - slice.logit_rows; i < slice.count; ++i) {
      arrays.logit_rows.push_back(slice.token_begin + i);
    }
  }
  return arrays;
}

BatchInputs take_inputs(const BatchSizes& sizes, Arena& arena) {
  const std::int64_t S = sizes.sequences, P = sizes.pages, T = sizes.tokens, R = sizes.logit_rows;
  BatchInputs inputs = {.sizes = sizes, .all = arena.take(DType::kI32, {T + S * (4 + P) + R})};
  std::byte* at = inputs.all.data;
  const auto part = [&](std::initializer_list<std::int64_t> dims) {
    const Tensor tensor(at, DType::kI32, dims);
    at += tensor.bytes().size();
    return tensor;
  };
  inputs.slices = part({S, 4});
  inputs.tokens = part({T});
  inputs.logit_rows = part({R});
  inputs.page_table = part({S, P});
  return inputs;
}

void copy_in(const BatchArrays& arrays, const BatchInputs& inputs, Device& device) {
  std::vector<std::int32_t> all;
  all.reserve(static_cast<std::size_t>(inputs.all.size()));
  for (const auto* part :
       {&arrays.slices, &arrays.tokens, &arrays.logit_rows, &arrays.page_table}) {
    all.insert(all.end(), part->begin(), part->end());
  }
  device.copy_in(inputs.all.data, all.data(), all.size() * sizeof(std::int32_t));
}

Batch place(const BatchInputs& inputs, const Tensor& rope_table, const SeatTensors& seats, Ops& ops,
            Arena& arena) {
  const auto ints = [&](std::int64_t count) { return arena.take(DType::kI32, {count}); };
  const std::int64_t T = inputs.tokens.dim(0);
  const PlaceRowsArgs args = {.tokens = inputs.tokens,
                              .slices = inputs.slices,
                              .page_table = inputs.page_table,
                              .last = seats.last ? seats.last : ints(0),
                              .lengths = seats.last ? seats.lengths : ints(0),
                              .rejected = seats.rejected,
                              .guesses = seats.guesses ? seats.guesses : ints(0),
                              .ids = ints(T),
                              .positions = ints(T),
                              .slots = ints(T),
                              .seqs = ints(T)};
  ops.place_rows(args);
  return {.token_ids = args.ids,
          .view = {.positions = args.positions,
                   .slots = args.slots,
                   .seqs = args.seqs,
                   .page_table = args.page_table,
                   .rope_table = rope_table,
                   .end = inputs.sizes.end,
                   .all_tokens = inputs.sizes.all_tokens},
          .logit_rows = inputs.logit_rows};
}

Batch build_batch(const StepRows& rows, const Tensor& rope_table, const SeatTensors& seats,
                  Ops& ops, Arena& arena) {
  const BatchArrays arrays = gather(rows, rope_table.dim(0), seats.last.dim(0));
  const BatchInputs inputs = take_inputs(arrays.sizes(), arena);
  copy_in(arrays, inputs, arena.device());
  return place(inputs, rope_table, seats, ops, arena);
}

}  // namespace glint
