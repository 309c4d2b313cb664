// Batch: the device arrays of a step's rows.
#pragma once

#include <vector>

#include "ops/ops.h"
#include "runtime/seat_table.h"
#include "runtime/step_rows.h"
#include "tensor/arena.h"

namespace glint {

// How many numbers a step's rows have.
struct BatchSizes {
  std::int64_t sequences = 0, pages = 1, tokens = 0, logit_rows = 0;
  std::int64_t end = 0;  // all positions are smaller
  std::int64_t all_tokens = 0;
};

// These numbers, on the host, as ops take them.
struct BatchArrays {
  std::vector<std::int32_t> tokens = {};      // [T]
  std::vector<std::int32_t> slices = {};      // [S, 4] (ops/sequences.h)
  std::vector<std::int32_t> page_table = {};  // [S, P]
  std::vector<std::int32_t> logit_rows = {};  // [R]: slice after slice, its last `logit_rows` rows
  std::int64_t end = 0, all_tokens = 0;

  BatchSizes sizes() const;
  // Makes this `sequences` slices and `rows` rows and logit rows, as many at least as there are;
  // the more are padding. And `pages` pages of each sequence: those beyond are of positions past
  // `end`.
  void fit(std::int64_t sequences, std::int64_t rows, std::int64_t pages);
};
// Aborts if a slice's pages, the rotary table's `positions` or the `seats` do not cover it.
BatchArrays gather(const StepRows& rows, std::int64_t positions, std::int64_t seats);

// The arrays of a batch on the device.
struct BatchInputs {
  BatchSizes sizes = {};
  Tensor all = {};  // of which these are parts
  Tensor tokens = {}, slices = {}, page_table = {}, logit_rows = {};
};
BatchInputs take_inputs(const BatchSizes& sizes, Arena& arena);
void copy_in(const BatchArrays& arrays, const BatchInputs& inputs, Device& device);

struct Batch {
  Tensor token_ids = {};   // [T] i32
  BatchView view = {};     // positions, slots and page table of T tokens
  Tensor logit_rows = {};  // [R] i32
};
// `seats` are of the sequences that have one, and may be empty. Where `seats.rejected` is given,
// rows of drafts that were wrong are left out.
Batch place(const BatchInputs& inputs, const Tensor& rope_table, const SeatTensors& seats, Ops& ops,
            Arena& arena);

// All of it: the tensors live in `arena`'s current scope; `rope_table` [positions, rope_dim] is the
// model's.
Batch build_batch(const StepRows& rows, const Tensor& rope_table, const SeatTensors& seats,
                  Ops& ops, Arena& arena);

}  // namespace glint
