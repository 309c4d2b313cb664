// SeatTable: what the device knows of the sequences that run, by seat: the last token of each, its
// length, how many of its last drafts were wrong, where drafting goes on, and how often it has said
// every token (ops/sequences.h), which penalties are taken from.
//
// Counts are filled from a sequence's tokens when it begins to run in a seat, and kept up by ops
// from then on. A ticket names their owner: it is valid until another sequence's counts are filled
// in there. The state that drafting goes on from has such a ticket, too.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "engine/token_list.h"
#include "model/config.h"
#include "tensor/device.h"
#include "tensor/tensor.h"

namespace glint {

// By seat.
struct SeatTensors {
  Tensor last = {};      // [seats] i32: the last token
  Tensor lengths = {};   // [seats] i32: tokens
  Tensor rejected = {};  // [seats] i32: rows of the last draw that came to nothing
  Tensor counts = {};    // [seats, num_ids] i32: of the tokens that were said
  // The MTP layer's, at the row of the last token but one: its hidden state, and the slots that it
  // attended to, where later drafts share them.
  Tensor hidden = {};  // [seats, hidden] of the activations' type
  Tensor keys = {};    // [seats, index_topk] i32
  // Not by seat: the drafts of a step, which its rows name.
  Tensor guesses = {};  // [seats * drafts] i32
};

struct SeatSizes {
  std::int64_t num_ids = 0;     // token ids are smaller
  std::int64_t max_drafts = 0;  // of a sequence in a step; 0: the rest is not needed
  std::int64_t hidden = 0;
  DType activations = DType::kBF16;
  std::int64_t shared_keys = 0;  // of a draft, which later ones share; 0: they do not

  std::int64_t bytes_of_seat() const;
};
SeatSizes seat_sizes(const ModelConfig& config, DType activations, int max_drafts);

class SeatTable {
 public:
  // `device` outlives the table.
  SeatTable(Device& device, const SeatSizes& sizes) : device_(device), sizes_(sizes) {}

  const SeatTensors& tensors() const { return tensors_; }

  // Makes room for `seats`. Steps in flight may write to the tables that are.
  void reserve(int seats);

  // Whether the seat's counts are those of the ticket's owner.
  bool holds(int seat, std::uint64_t ticket) const {
    return ticket != 0 && tickets_[static_cast<std::size_t>(seat)].counts == ticket;
  }
  // Counts `tokens` in a seat, after the ops so far; a new ticket.
  std::uint64_t fill(int seat, const TokenList& tokens);
  // holds() and fill() of the state that drafting goes on from, which ops have written to the seat.
  bool holds_draft(int seat, std::uint64_t ticket) const {
    return ticket != 0 && tickets_[static_cast<std::size_t>(seat)].draft == ticket;
  }
  std::uint64_t keep_draft(int seat) {
    return tickets_[static_cast<std::size_t>(seat)].draft = ++last_ticket_;
  }
  // Makes all tickets invalid.
  void forget() { tickets_.assign(tickets_.size(), {}); }

 private:
  struct Tickets {
    std::uint64_t counts = 0, draft = 0;
  };
  void grow(Tensor& tensor, DType dtype, std::initializer_list<std::int64_t> dims);

  Device& device_;
  const SeatSizes sizes_;
  SeatTensors tensors_;
  std::map<const Tensor*, Buffer> memory_;  // of each
  std::vector<Tickets> tickets_;
  std::uint64_t last_ticket_ = 0;
};

}  // namespace glint
