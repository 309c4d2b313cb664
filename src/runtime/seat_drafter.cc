#include "runtime/seat_drafter.h"

#include <numeric>

#include "tensor/transfer.h"

namespace glint {
namespace {

// The token of a row that is the `index`-th guess.
TokenId code_of(std::int64_t index) { return -2 - static_cast<TokenId>(index); }

std::int64_t size_of_list(const auto& list) { return static_cast<std::int64_t>(list.size()); }

// Slots as numbers that rows of f32 are moved as.
Tensor as_floats(const Tensor& ints) {
  Tensor floats = ints;
  floats.dtype = DType::kF32;
  return floats;
}

}  // namespace

Tensor SeatDrafter::gather(const Tensor& table, std::span<SliceRun* const> runs) {
  std::vector<std::int32_t> seats;
  for (const SliceRun* run : runs) seats.push_back(run->slice->seat);
  Arena& scratch = model_.scratch();
  const Tensor out = scratch.take(table.dtype, {size_of_list(runs), table.dim(1)});
  model_.ops().gather_rows(
      {.x = table, .rows = upload(seats, {size_of_list(runs)}, scratch), .out = out});
  return out;
}

void SeatDrafter::take_best(const Tensor& logits, std::int64_t begin) {
  model_.ops().argmax({.logits = logits,
                       .num_ids = num_token_ids_,
                       .tokens = seats_.tensors().guesses.slice(0, begin, logits.dim(0))});
}

void SeatDrafter::guess(std::span<SliceRun* const> runs) {
  if (runs.empty()) return;
  const Arena::Scope scope(model_.scratch());
  std::vector<SliceRun*> active(runs.begin(), runs.end());
  std::vector<std::vector<TokenId>> codes(active.size());  // of the active ones
  std::int64_t count = 0;                                  // of guesses so far
  const auto take = [&](const Tensor& logits) {
    take_best(logits, count);
    for (std::vector<TokenId>& own : codes) own.push_back(code_of(count++));
  };
  Tensor hidden = gather(seats_.tensors().hidden, active);
  take(model_.logits_of({.on_device = hidden}));
  for (int step = 1; !active.empty(); ++step) {
    // Slices that want more drafts, with the layer's hidden states of the step before.
    std::vector<std::int32_t> kept;
    StepRows rows;
    for (std::size_t i = 0; i < active.size(); ++i) {
      SliceRun& run = *active[i];
      if (static_cast<int>(run.drafts.size()) == step) {
        run.drafts = codes[i];
        continue;
      }
      rows.add(run.first - 1 + step, std::span(&codes[i].back(), 1), run.pages, 1);
      rows.slices.back().seat = run.slice->seat;
      rows.slices.back().from_length = step - 2;
      codes[kept.size()] = codes[i];
      active[kept.size()] = &run;
      kept.push_back(static_cast<std::int32_t>(i));
    }
    active.resize(kept.size());
    codes.resize(kept.size());
    if (active.empty()) return;
    Arena& scratch = model_.scratch();
    const Tensor target = scratch.take(hidden.dtype, {size_of_list(kept), hidden.dim(1)});
    model_.ops().gather_rows(
        {.x = hidden, .rows = upload(kept, {size_of_list(kept)}, scratch), .out = target});
    DraftOptions options = {.seats = seats_.tensors()};
    options.seats.rejected = {};
    if (shares_keys()) {
      options.selected = gather(as_floats(seats_.tensors().keys), active);
      options.selected.dtype = DType::kI32;
    }
    const StepOutput out = model_.draft_ahead(rows, {.on_device = target}, options);
    take(out.device_logits);
    hidden = out.hidden;
  }
}

void SeatDrafter::read(std::span<SliceRun* const> runs) const {
  if (runs.empty()) return;
  const auto guesses = download<TokenId>(seats_.tensors().guesses, model_.ops().device());
  for (SliceRun* run : runs) {
    for (TokenId& draft : run->drafts) draft = guesses[static_cast<std::size_t>(-2 - draft)];
  }
}

void SeatDrafter::run_rows(std::span<SliceRun> runs, const Tensor& tokens) {
  StepRows rows;
  std::vector<std::int32_t> hidden_rows, last_rows, seats;
  for (SliceRun& run : runs) {
    SequenceState& sequence = *run.sequence;
    const bool draws = run.slice->sample && !run.late;
    // The row of its last token needs the one that was drawn.
    const int known = draws ? run.known - 1 : std::min(run.known, sequence.size() - 1 - run.first);
    if (!run.slice->sample) sequence.draft = 0;
    if (known <= 0 && !draws) continue;
    std::vector<TokenId> next, buffer;
    if (known > 0) {
      const auto read = sequence.tokens.read(static_cast<std::size_t>(run.first + 1),
                                             static_cast<std::size_t>(known), buffer);
      next.assign(read.begin(), read.end());
    }
    for (int i = 0; draws && i < run.sampling_rows(); ++i) {
      next.push_back(code_of(run.logit_begin + i));
    }
    const auto count = static_cast<int>(next.size());
    rows.add(run.first, next, run.pages, 0);
    RowSlice& slice = rows.slices.back();
    if (draws && (run.pending || !run.drafts.empty())) {
      slice.seat = run.slice->seat;
      slice.from_length = -1 - count;
    }
    const auto begin = hidden_rows.insert(hidden_rows.end(), next.size(), 0);
    std::iota(begin, hidden_rows.end(), run.row_begin);
    if (!run.slice->sample) continue;
    last_rows.push_back(slice.token_begin + count - 1);
    seats.push_back(run.slice->seat);
    sequence.draft = seats_.keep_draft(run.slice->seat);
  }
  if (hidden_rows.empty()) return;
  DraftOptions options = {.seats = seats_.tensors()};
  options.seats.guesses = tokens;
  const StepOutput out = model_.draft_ahead(rows, {.rows = hidden_rows}, options);
  Arena& scratch = model_.scratch();
  const Arena::Scope scope(scratch);
  const SeatTensors& table = seats_.tensors();
  KeepRowsArgs keep = {.x = out.hidden,
                       .rows = upload(last_rows, {size_of_list(last_rows)}, scratch),
                       .seats = upload(seats, {size_of_list(seats)}, scratch),
                       .rejected = table.rejected,
                       .out = table.hidden};
  model_.ops().keep_rows(keep);
  if (!shares_keys()) return;
  keep.x = as_floats(out.selected), keep.out = as_floats(table.keys);
  model_.ops().keep_rows(keep);
}

}  // namespace glint
