#include "runtime/step_graphs.h"

#include <algorithm>
#include <bit>

namespace glint {
namespace {

constexpr std::size_t kMaxGraphs = 96;

// Few sizes, and never a quarter more rows than there are beyond the first.
std::int64_t padded_rows(std::int64_t rows) {
  if (rows <= 8) return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(rows)));
  const std::int64_t step = rows <= 64 ? 8 : 32;
  return (rows + step - 1) / step * step;
}

}  // namespace

bool StepGraphs::fit(const Model& m, const StepRows& rows, const StepOptions& options) {
  return options.graphs && !m.ops.device().is_host() && !options.taps && !rows.slices.empty() &&
         m.mesh.tp->size() == 1 && m.mesh.ep->size() == 1 && m.mesh.pp->size() == 1 &&
         std::all_of(rows.slices.begin(), rows.slices.end(), [](const RowSlice& slice) {
           return slice.count == 1 && slice.logit_rows == 1;
         });
}

ForwardArgs StepGraphs::run(const Model& m, const StepRows& rows, const Tensor& rope_table,
                            const StepOptions& options, Arena& arena) {
  const auto count = static_cast<std::int64_t>(rows.slices.size());
  BatchArrays arrays = gather(rows, rope_table.dim(0), options.last_tokens.dim(0));
  const Key key = {.rows = padded_rows(count),
                   .pages = static_cast<std::int64_t>(
                       std::bit_ceil(static_cast<std::uint64_t>(arrays.num_pages()))),
                   .scores_keys = arrays.end > m.config.index_topk,
                   .routed = options.routed,
                   .last_tokens = options.last_tokens.data};
  arrays.pad(key.rows, key.pages);
  // The graph is of every step of its key.
  arrays.end = key.scores_keys ? BatchView().end : m.config.index_topk;
  if (graphs_.size() >= kMaxGraphs && graphs_.count(key) == 0) clear();
  const auto [found, is_new] = graphs_.try_emplace(key);
  Recorded& recorded = found->second;
  Device& device = m.ops.device();
  const auto batch = [&] {
    return place(recorded.inputs, arrays, rope_table, options.last_tokens, m.ops, arena);
  };
  if (!recorded.graph) recorded.inputs = take_inputs(arrays, arena);
  copy_in(arrays, recorded.inputs, device);
  if (recorded.graph) {
    recorded.graph->launch();
  } else if (is_new) {
    recorded.results = run_batch(m, batch(), options, arena);
  } else {
    recorded.graph =
        device.capture([&] { recorded.results = run_batch(m, batch(), options, arena); });
  }
  ForwardArgs results = recorded.results;
  results.hidden = results.hidden.slice(0, 0, count);
  results.logits = results.logits.slice(0, 0, count);
  return results;
}

}  // namespace glint
