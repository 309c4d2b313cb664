#include "runtime/seat_table.h"

#include <algorithm>

#include "base/str.h"
#include "ops/sequences.h"

namespace glint {

std::int64_t SeatSizes::bytes_of_seat() const {
  constexpr std::int64_t kInt = sizeof(std::int32_t);
  std::int64_t bytes = (3 + num_ids) * kInt;
  if (max_drafts > 0) {
    bytes += hidden * static_cast<std::int64_t>(size_of(activations)) +
             (shared_keys + max_drafts) * kInt;
  }
  return bytes;
}

SeatSizes seat_sizes(const ModelConfig& config, DType activations, int max_drafts) {
  return {.num_ids = config.vocab_size,
          .max_drafts = max_drafts,
          .hidden = config.hidden_size,
          .activations = activations,
          .shared_keys = config.index_share_for_mtp_iteration ? config.index_topk : 0};
}

void SeatTable::reserve(int seats) {
  const std::int64_t held = tensors_.last.dim(0);
  if (seats <= held) return;
  const std::int64_t wanted = std::max<std::int64_t>(seats, 2 * held);
  grow(tensors_.last, DType::kI32, {wanted});
  grow(tensors_.lengths, DType::kI32, {wanted});
  grow(tensors_.rejected, DType::kI32, {wanted});
  grow(tensors_.counts, DType::kI32, {wanted, sizes_.num_ids});
  tickets_.resize(static_cast<std::size_t>(wanted));
  if (sizes_.max_drafts == 0) return;
  grow(tensors_.guesses, DType::kI32, {wanted * sizes_.max_drafts});
  grow(tensors_.hidden, sizes_.activations, {wanted, sizes_.hidden});
  if (sizes_.shared_keys > 0) grow(tensors_.keys, DType::kI32, {wanted, sizes_.shared_keys});
}

// Copies are ordered with the ops, and memory is freed after them.
void SeatTable::grow(Tensor& tensor, DType dtype, std::initializer_list<std::int64_t> dims) {
  Tensor grown(nullptr, dtype, dims);
  const std::size_t bytes = size_of(dtype) * static_cast<std::size_t>(grown.size());
  Buffer larger = device_.allocate(bytes);
  GLINT_CHECK(larger.data() != nullptr,
              str("no memory for ", grown.dim(0), " seats on ", device_.name()));
  grown.data = larger.data();
  // Nobody's numbers lead nowhere; rows are nobody's until they are written.
  if (dims.size() == 1) device_.copy_in(grown.data, std::vector<std::byte>(bytes).data(), bytes);
  if (tensor) device_.copy(grown.data, tensor.data, tensor.bytes().size());
  tensor = grown;
  memory_[&tensor] = std::move(larger);
}

std::uint64_t SeatTable::fill(int seat, const TokenList& tokens) {
  std::vector<std::int32_t> row(static_cast<std::size_t>(sizes_.num_ids));
  for (const TokenId id : tokens.prompt()) row[static_cast<std::size_t>(id)] = kCountOfPrompt;
  for (const TokenId id : tokens.answer()) row[static_cast<std::size_t>(id)] += kCountOfSaid;
  device_.copy_in(tensors_.counts[seat].data, row.data(), row.size() * sizeof(std::int32_t));
  return tickets_[static_cast<std::size_t>(seat)].counts = ++last_ticket_;
}

}  // namespace glint
