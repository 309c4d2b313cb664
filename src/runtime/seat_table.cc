#include "runtime/seat_table.h"

#include <algorithm>

#include "base/str.h"
#include "ops/sequences.h"

namespace glint {

void SeatTable::reserve(int seats) {
  const std::int64_t held = last_.dim(0);
  if (seats <= held) return;
  const std::int64_t wanted = std::max<std::int64_t>(seats, 2 * held);
  last_ = grow(last_, {wanted}, last_memory_);
  counts_ = grow(counts_, {wanted, num_ids_}, counts_memory_);
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
  if (old) device_.copy(grown.data, old.data, old.bytes().size());
  memory = std::move(larger);
  return grown;
}

std::uint64_t SeatTable::fill(int seat, const TokenList& tokens) {
  std::vector<std::int32_t> row(static_cast<std::size_t>(num_ids_));
  for (const TokenId id : tokens.prompt()) row[static_cast<std::size_t>(id)] = kCountOfPrompt;
  for (const TokenId id : tokens.answer()) row[static_cast<std::size_t>(id)] += kCountOfSaid;
  device_.copy_in(counts_[seat].data, row.data(), row.size() * sizeof(std::int32_t));
  return tickets_[static_cast<std::size_t>(seat)] = ++last_ticket_;
}

}  // namespace glint
