#include "runtime/routed_experts.h"

#include <algorithm>

#include "base/check.h"
#include "base/str.h"
#include "runtime/sequence_state.h"

namespace glint {
namespace {

bool wants_ids(const SliceRun& run) { return run.sequence->request->want.routed_experts; }

}  // namespace

RoutedExperts::RoutedExperts(Ops& ops, int layers, int num_experts, int k)
    : ops_(ops),
      layers_(static_cast<std::size_t>(layers)),
      k_(static_cast<std::size_t>(k)),
      seen_(layers_ * static_cast<std::size_t>(num_experts)),
      load_(seen_.size()) {
  if (seen_.empty()) return;
  const auto size = static_cast<std::size_t>(bytes(layers, num_experts));
  memory_ = ops.device().allocate(size);
  GLINT_CHECK(memory_.data() != nullptr,
              str("no memory for the load of experts on ", ops.device().name()));
  counts_ = {memory_.data(), DType::kI32, {layers, num_experts}};
  ops.device().copy_in(counts_.data, seen_.data(), size);
}

void RoutedExperts::ask(const Tensor& routed, std::vector<std::int64_t> rows,
                        std::span<const SliceRun> runs, AskedRoutes& asked) {
  if (!counts_) return;
  const auto layers = static_cast<std::int64_t>(layers_);
  if (rows.size() == 1) rows = {routed.dim(0) / layers};
  std::int64_t begin = 0;
  for (const std::int64_t T : rows) {
    ops_.count_experts({.ids = routed.slice(0, begin, layers * T), .counts = counts_});
    begin += layers * T;
  }
  asked.rows = std::move(rows);
  asked.counts.ask(counts_, ops_.device());
  if (std::ranges::any_of(runs, wants_ids)) asked.ids.ask(routed, ops_.device());
}

void RoutedExperts::tell(const AskedRoutes& asked, std::span<const int> replica_rows, int members,
                         std::span<SliceRun> runs) {
  if (!counts_) return;
  {
    const std::span<const std::int32_t> counts = asked.counts.ints();
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < load_.size(); ++i) {
      load_[i] += static_cast<std::uint32_t>(counts[i]) - static_cast<std::uint32_t>(seen_[i]);
    }
    seen_.assign(counts.begin(), counts.end());
  }
  if (std::ranges::none_of(runs, wants_ids)) return;
  std::vector<std::span<const std::int32_t>> of_replicas;
  std::span<const std::int32_t> rest = asked.ids.ints();
  for (const std::int64_t T : asked.rows) {
    const std::size_t size = layers_ * k_ * static_cast<std::size_t>(T);
    of_replicas.push_back(rest.first(size));
    rest = rest.subspan(size);
  }
  for (SliceRun& run : runs) {
    if (!wants_ids(run)) continue;
    SequenceState& sequence = *run.sequence;
    std::vector<std::uint16_t>& told = run.result->extras.routed_experts;
    // A row that gave no token, at the end of a grammar or without its masks, is told once it does.
    const int end = std::min(run.first + run.certain_rows(), sequence.size() - 1);
    for (int at = std::max(run.first, sequence.told_routed_rows); at < end; ++at) {
      std::size_t row = static_cast<std::size_t>(run.row_begin + at - run.first);
      std::size_t replica = static_cast<std::size_t>(run.slice->replica * members);
      for (; members > 1 && row >= static_cast<std::size_t>(replica_rows[replica]); ++replica)
        row -= static_cast<std::size_t>(replica_rows[replica]);
      const std::span<const std::int32_t> ids = of_replicas[replica];
      for (std::size_t layer = 0; layer < layers_; ++layer) {
        const auto chosen = ids.subspan(layer * (ids.size() / layers_) + row * k_, k_);
        told.insert(told.end(), chosen.begin(), chosen.end());
      }
    }
    sequence.told_routed_rows = std::max(sequence.told_routed_rows, end);
  }
}

std::vector<std::uint64_t> RoutedExperts::load() const {
  const std::lock_guard lock(mutex_);
  return load_;
}

}  // namespace glint
