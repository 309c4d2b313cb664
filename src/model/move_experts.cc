#include "model/move_experts.h"

#include <algorithm>

#include "tensor/transfer.h"

namespace glint {
namespace {

constexpr std::int64_t kColumns = std::int64_t{1} << 18;  // bytes of a slot that move at a time

// Rows to and from one rank, in the order of slots.
struct Route {
  std::vector<std::int32_t> rows;     // of this rank's slots: what it sends, rank after rank
  std::vector<std::int32_t> offsets;  // ExchangeArgs::offsets: [size, size + 1]
  std::vector<std::int32_t> first;    // ExchangeArgs::first
  std::vector<std::int32_t> places;   // this rank's slot of each row that comes
};

Route route_of(const ExpertMove& move, int rank, int size) {
  const auto num_slots = static_cast<int>(move.to.size());
  const std::vector<std::int32_t> sources = sources_of(move.from, move.to, size);
  Route route;
  for (int s = 0; s < size; ++s) {
    const ExpertRange theirs = experts_of(num_slots, s, size);
    std::int32_t sent = 0;
    route.offsets.push_back(0);
    for (int r = 0; r < size; ++r) {
      const ExpertRange to = experts_of(num_slots, r, size);
      for (int p = to.first; p < to.first + to.count; ++p) {
        const std::int32_t from = sources[static_cast<std::size_t>(p)] - theirs.first;
        if (from < 0 || from >= theirs.count) continue;
        ++sent;
        if (s == rank) route.rows.push_back(from);
        if (r == rank) route.places.push_back(p - to.first);
      }
      route.offsets.push_back(sent);
    }
  }
  for (std::int32_t r = 0; r <= size; ++r) route.first.push_back(r);
  return route;
}

// The bytes of each matrix, as a row.
Tensor rows_of(const Tensor& stacked) {
  const std::int64_t count = stacked.dim(0), element = size_of(stacked.dtype);
  Tensor rows(stacked.data, DType::kU8, {count, stacked.size() / count * element});
  rows.stride[0] = stacked.stride[0] * element;
  return rows;
}

}  // namespace

Status check_movable(const MoeWeights& weights) {
  for (const WeightStack* stack : {&weights.gate_proj, &weights.up_proj, &weights.down_proj}) {
    if (stack->each.empty()) continue;
    return unsupported(
        "experts that move between ranks must be of one format and in memory of their own; "
        "leave --enable-eplb out, or --pack never, or free memory for packed weights");
  }
  return Ok{};
}

void move_experts(const ExpertMove& move, const MoeWeights& weights, Comm& ep, Arena& scratch) {
  const Arena::Scope scope(scratch);
  Device& device = scratch.device();
  const Route route = route_of(move, ep.rank(), ep.size());
  const Tensor offsets = upload(route.offsets, {ep.size(), ep.size() + 1}, scratch);
  const Tensor rows = upload(route.rows, {std::ssize(route.rows)}, scratch);
  const auto move_columns = [&](const Tensor& columns) {
    const Arena::Scope of_columns(scratch);
    const std::int64_t bytes = columns.dim(1);
    const Tensor come = scratch.take(DType::kU8, {std::ssize(route.places), bytes});
    ep.exchange(
        {.x = columns, .rows = rows, .offsets = offsets, .first = route.first, .out = come});
    for (std::size_t i = 0; i < route.places.size(); ++i) {
      const Tensor to = columns.slice(0, route.places[i], 1);
      const Tensor from = come.slice(0, static_cast<std::int64_t>(i), 1);
      device.copy(to.data, from.data, static_cast<std::size_t>(bytes));
    }
  };
  for (const WeightStack* stack : {&weights.gate_proj, &weights.up_proj, &weights.down_proj}) {
    for (const Tensor* part : {&stack->data, &stack->scale, &stack->global_scale}) {
      if (!*part) continue;
      const Tensor all = rows_of(*part);
      for (std::int64_t at = 0; at < all.dim(1); at += kColumns) {
        move_columns(all.slice(1, at, std::min(kColumns, all.dim(1) - at)));
      }
    }
  }
}

}  // namespace glint
