#include "runtime/expert_balancer.h"

#include <algorithm>

namespace glint {
namespace {

// Less than this is not worth moving weights.
constexpr double kGain = 1.05;

}  // namespace

ExpertBalancer::ExpertBalancer(const ModelPartition& partition, ExpertBalancerOptions options)
    : options_(std::move(options)),
      num_ranks_(partition.shape.ep),
      first_(first_slots(options_.num_experts, partition.num_expert_slots)),
      seen_(options_.layers.size() * static_cast<std::size_t>(options_.num_experts)) {
  places_.num_ranks = num_ranks_;
  for (const int layer : options_.layers) {
    places_.slots.push_back(partition.slots_of(layer, options_.num_experts));
  }
}

std::optional<ExpertBalancer::Move> ExpertBalancer::before_step(const Load& load) {
  ++steps_;
  if (options_.interval > 0 && waiting_.empty() && steps_ > options_.interval) look(load());
  if (waiting_.empty()) return std::nullopt;
  Move move = std::move(waiting_.back());
  waiting_.pop_back();
  const auto found = std::find(options_.layers.begin(), options_.layers.end(), move.layer);
  const std::lock_guard lock(mutex_);
  ExpertSlots& now = places_.slots[static_cast<std::size_t>(found - options_.layers.begin())];
  for (std::size_t p = 0; p < now.size(); ++p) places_.moved_experts += now[p] != move.slots[p];
  ++places_.moved_layers;
  now = move.slots;
  return move;
}

void ExpertBalancer::look(const std::vector<std::uint64_t>& load) {
  steps_ = 1;
  const auto E = static_cast<std::size_t>(options_.num_experts);
  const std::lock_guard lock(mutex_);
  double before = 0, after = 0;
  for (std::size_t i = 0; i < options_.layers.size(); ++i) {
    std::vector<std::uint64_t> rows(E);
    for (std::size_t e = 0; e < E; ++e) rows[e] = load[i * E + e] - seen_[i * E + e];
    const ExpertSlots& now = places_.slots[i];
    ExpertSlots next = balanced_slots(rows, now, num_ranks_);
    const double is = imbalance(rows, now, num_ranks_);
    const double can = imbalance(rows, next, num_ranks_);
    const bool moves = is > can * kGain;
    before += is, after += moves ? can : is;
    if (moves) waiting_.push_back({options_.layers[i], std::move(next)});
  }
  std::reverse(waiting_.begin(), waiting_.end());
  const auto layers = static_cast<double>(std::max<std::size_t>(options_.layers.size(), 1));
  places_.imbalance_before = before / layers;
  places_.imbalance_after = after / layers;
  ++places_.looks;
  seen_ = load;
}

void ExpertBalancer::forget_moves() {
  steps_ = 0;
  waiting_.clear();
  const std::lock_guard lock(mutex_);
  places_.slots.assign(options_.layers.size(), first_);
}

ExpertPlaces ExpertBalancer::places() const {
  const std::lock_guard lock(mutex_);
  return places_;
}

}  // namespace glint
