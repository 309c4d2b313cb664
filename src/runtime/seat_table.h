// SeatTable: what the device knows of the sequences that run, by seat: the last token of each, its
// length, how many of its last drafts were wrong, and how often it has said every token
// (ops/sequences.h), which penalties are taken from.
//
// Counts are filled from a sequence's tokens when it begins to run in a seat, and kept up by ops
// from then on. A ticket tells whose they are: it is the sequence's until others are filled there.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/token_list.h"
#include "tensor/device.h"
#include "tensor/tensor.h"

namespace glint {

// By seat.
struct SeatTensors {
  Tensor last = {};      // [seats] i32: the last token
  Tensor lengths = {};   // [seats] i32: tokens
  Tensor rejected = {};  // [seats] i32: rows of the last draw that came to nothing
  Tensor counts = {};    // [seats, num_ids] i32: of the tokens that were said
};

class SeatTable {
 public:
  // Token ids are below `num_ids`. `device` outlives the table.
  SeatTable(Device& device, std::int64_t num_ids) : device_(device), num_ids_(num_ids) {}

  const SeatTensors& tensors() const { return tensors_; }

  // Makes room for `seats`. Steps in flight may write to the tables that are.
  void reserve(int seats);

  // Whether the seat's counts are those of the ticket's owner.
  bool holds(int seat, std::uint64_t ticket) const {
    return ticket != 0 && tickets_[static_cast<std::size_t>(seat)] == ticket;
  }
  // Counts `tokens` in a seat, after the ops so far; a new ticket.
  std::uint64_t fill(int seat, const TokenList& tokens);
  // Nobody's ticket holds any more.
  void forget() { tickets_.assign(tickets_.size(), 0); }

 private:
  Tensor grow(const Tensor& old, std::initializer_list<std::int64_t> dims, Buffer& memory);

  Device& device_;
  const std::int64_t num_ids_;
  SeatTensors tensors_;
  std::array<Buffer, 4> memory_;  // of each
  std::vector<std::uint64_t> tickets_;
  std::uint64_t last_ticket_ = 0;
};

}  // namespace glint
