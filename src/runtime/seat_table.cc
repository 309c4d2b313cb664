#include "runtime/seat_table.h"

#include <algorithm>

#include "base/str.h"
#include "ops/sequences.h"

namespace glint {

void SeatTable::reserve(int seats) {
  const std::int64_t held = tensors_.last.dim(0);
  if (seats <= held) return;
  const std::int64_t wanted = std::max<std::int64_t>(seats, 2 * held);
  tensors_.last = grow(tensors_.last, {wanted}, memory_[0]);
  tensors_.lengths = grow(tensors_.lengths, {wanted}, memory_[1]);
  tensors_.rejected = grow(tensors_.rejected, {wanted}, memory_[2]);
  tensors_.counts = grow(tensors_.counts, {wanted, num_ids_}, memory_[3]);
  tickets_.resize(static_cast<std::size_t>(wanted));
}

// Copies are ordered with the ops, and memory is freed after them.
Tensor SeatTable::grow(const Tensor& old, std::initializer_list<std::int64_t> dims,
                       Buffer& memory) {
  Tensor grown(nullptr, DType::kI32, dims);
  const std::size_t bytes = sizeof(std::int32_t) * static_cast<std::size_t>(grown.size());
  Buffer larger = device_.allocate(bytes);
  GLINT_CHECK(larger.data() != nullptr,
              str("no memory for ", grown.dim(0), " seats on ", device_.name()));
  grown.data = larger.data();
  // Nobody's numbers lead nowhere; nobody's counts are read by nobody.
  if (dims.size() == 1) device_.copy_in(grown.data, std::vector<std::byte>(bytes).data(), bytes);
  if (old) device_.copy(grown.data, old.data, old.bytes().size());
  memory = std::move(larger);
  return grown;
}

std::uint64_t SeatTable::fill(int seat, const TokenList& tokens) {
  std::vector<std::int32_t> row(static_cast<std::size_t>(num_ids_));
  for (const TokenId id : tokens.prompt()) row[static_cast<std::size_t>(id)] = kCountOfPrompt;
  for (const TokenId id : tokens.answer()) row[static_cast<std::size_t>(id)] += kCountOfSaid;
  device_.copy_in(tensors_.counts[seat].data, row.data(), row.size() * sizeof(std::int32_t));
  return tickets_[static_cast<std::size_t>(seat)] = ++last_ticket_;
}

}  // namespace glint
