#include "ops/weight_plan.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "base/thread_pool.h"
#include "comm/staged_comm.h"
#include "ops/backend.h"
#include "tensor/staging.h"

namespace glint {
namespace {

std::int64_t aligned(std::int64_t bytes) { return round_up(bytes, WeightPlan::kAlign); }

// Their packed forms differ by their addresses only.
bool are_alike(const WeightStack& weights) {
  return std::all_of(weights.each.begin(), weights.each.end(), [&](const Weight& weight) {
    return weight.format == weights.format && weight.block_rows == weights.each[0].block_rows &&
           weight.block_cols == weights.each[0].block_cols;
  });
}

}  // namespace

// Without memory, addresses begin where none can be.
WeightPlan::WeightPlan(Backend& backend, std::byte* begin)
    : backend_(backend),
      begin_(begin ? reinterpret_cast<std::uintptr_t>(begin) : std::uintptr_t{1} << 60),
      next_(begin_) {}

std::byte* WeightPlan::take(std::int64_t bytes) {
  auto* const taken = reinterpret_cast<std::byte*>(next_);
  next_ += static_cast<std::uintptr_t>(aligned(bytes));
  return taken;
}

std::int64_t WeightPlan::bytes() const { return static_cast<std::int64_t>(next_ - begin_); }

std::int64_t WeightPlan::packed_bytes() const {
  std::int64_t bytes = 0;
  for (const PackedPair& pair : pairs_) bytes += backend_.packed_bytes(pair.from);
  return bytes;
}

bool WeightPlan::is_placed(const Tensor& tensor) const {
  const auto at = reinterpret_cast<std::uintptr_t>(tensor.data);
  return at >= begin_ && at < next_;
}

void WeightPlan::place(Weight& weight) {
  if (!weight || is_placed(weight.data)) return;
  const std::int64_t bytes = backend_.packed_bytes(weight);
  if (bytes == 0) return;
  const Weight placed = backend_.packed(weight, take(bytes));
  pairs_.push_back({weight, placed});
  weight = placed;
}

void WeightPlan::place(WeightStack& weights) {
  if (!weights || is_placed(weights[0].data)) return;
  if (!are_alike(weights)) {
    lists_.emplace_back(weights.each.begin(), weights.each.end());
    for (Weight& weight : lists_.back()) place(weight);
    weights = stack_of(lists_.back());
    return;
  }
  const std::int64_t bytes = backend_.packed_bytes(weights[0]);
  if (bytes == 0) return;
  const std::int64_t stride = aligned(bytes);
  std::byte* const first = take(weights.count * stride);
  for (std::int64_t i = 0; i < weights.count; ++i) {
    pairs_.push_back({weights[i], backend_.packed(weights[i], first + i * stride)});
  }
  weights = stack_of(backend_.packed(weights[0], first), weights.count, stride);
}

void WeightPlan::place(Tensor& tensor) {
  if (!tensor || is_placed(tensor) || backend_.device().is_host()) return;
  Tensor placed = tensor;
  placed.data = take(static_cast<std::int64_t>(tensor.bytes().size()));
  copies_.push_back({tensor, placed});
  tensor = placed;
}

std::unique_ptr<DeviceComm> Backend::make_comm(Comm& host) {
  if (device().is_host()) return nullptr;
  return std::make_unique<StagedComm>(host, device());
}

std::int64_t Backend::packed_bytes(const Weight& weight) {
  if (device().is_host()) return 0;
  std::int64_t bytes = 0;
  for (const Tensor* part : {&weight.data, &weight.scale, &weight.global_scale}) {
    bytes += aligned(static_cast<std::int64_t>(part->bytes().size()));
  }
  return bytes;
}

Weight Backend::packed(const Weight& weight, std::byte* to) {
  Weight placed = weight;
  for (Tensor* part : {&placed.data, &placed.scale, &placed.global_scale}) {
    if (!*part) continue;
    part->data = to;
    to += aligned(static_cast<std::int64_t>(part->bytes().size()));
  }
  return placed;
}

void Backend::pack(std::span<const PackedPair> pairs, ThreadPool& threads) {
  // Pinning memory takes longer than a small weight's copy: no more of it than there is to send.
  constexpr std::size_t kMost = std::size_t{32} << 20;
  std::size_t bytes = 0;
  for (const auto& [from, to] : pairs) {
    for (const Tensor* part : {&from.data, &from.scale, &from.global_scale}) {
      if (*part) bytes += part->bytes().size();
    }
  }
  Staging staging(device(), threads, std::min(bytes, kMost));
  const auto copy = [&](const Tensor& from, const Tensor& to) {
    if (from) staging.copy(to.data, from.data, from.bytes().size());
  };
  for (const auto& [from, to] : pairs) {
    copy(from.data, to.data);
    copy(from.scale, to.scale);
    copy(from.global_scale, to.global_scale);
  }
}

}  // namespace glint
