// SampleRows: what requests ask of their next tokens, as the op sample (ops/sampling.h) takes it.
//
// The order is vLLM's: bias, what may come at all (allowed ids, the grammar, bad words, stop ids
// before min_tokens), repetition, frequency and presence penalties, temperature, min_p, top_k,
// top_p. Every draw is a function of (seed, position) alone, so that what a request says does not
// depend on its batch, on threads, on chunks or on speculation: a draft is right if it is the token
// that would have been drawn anyway. It is drawn with exactly the model's probability, so that is
// how often a draft is accepted, and answers have exactly the model's distribution.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampling_params.h"
#include "ops/ops.h"
#include "runtime/seat_table.h"
#include "tensor/transfer.h"

namespace glint {

// A row's inputs besides logits and parameters.
struct SamplingContext {
  std::int64_t position = 0;             // of the token
  int length_seat = -1;                  // a seat whose length is added to `position`; -1: none
  std::span<const TokenId> answer = {};  // the tokens of the answer before it
  int seat = -1;                         // of its counts; -1: no penalties
  // The last of `answer`, if it is a guess; or its place among the device's (ops/sequences.h).
  TokenId draft = -1;
  std::span<const TokenId> forbidden = {};   // may not come
  std::span<const std::uint32_t> mask = {};  // of bits: what may come; empty: everything
};

class SampleRows {
 public:
  // Ids from `num_ids` on are padding and never come.
  explicit SampleRows(std::int64_t num_ids) : num_ids_(num_ids) {}

  int size() const { return static_cast<int>(positions_.size()); }
  // A row with a draft comes after the row whose token the draft guesses.
  void add(const SamplingParams& params, const SamplingContext& context);

  // At most, with masks and everything else that requests may ask for.
  static std::int64_t upload_bytes(std::int64_t num_ids, std::int64_t rows);

  // [size()] i32 on the device.
  struct Drawn {
    Tensor tokens = {};  // one, kNotNumbers or kNoToken for each row
    Tensor drafts = {};  // that rows run; -1: none
  };
  // From `logits` [size(), V], in the arena's present scope. Counts of `seats` are read where a row
  // has a seat, and those tokens are counted there which no wrong draft comes before.
  Drawn draw(Ops& ops, const Tensor& logits, const SeatTensors& seats, Arena& arena) const;
  // draw(), in one copy with what is in `uploads`.
  Drawn draw(Ops& ops, const Tensor& logits, const SeatTensors& seats, Uploads& uploads,
             Arena& arena) const;

 private:
  void add_mask(const SamplingParams& params, const SamplingContext& context);
  void add_edits(const SamplingParams& params, const SamplingContext& context);
  bool holds(TokenId id) const { return id >= 0 && id < num_ids_; }
  std::size_t mask_words() const { return static_cast<std::size_t>((num_ids_ + 31) / 32); }

  std::int64_t num_ids_;
  std::vector<float> scales_, top_p_, min_p_;
  std::vector<std::int32_t> top_k_, seeds_, positions_;
  std::vector<std::int32_t> masks_, mask_rows_;
  std::vector<std::int32_t> edit_begins_ = {0}, edit_ids_;
  std::vector<float> edit_values_;
  std::vector<std::int32_t> seats_, length_seats_, drafts_, penalties_;
};

}  // namespace glint
