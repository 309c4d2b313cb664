#include "runtime/step_graphs.h"

#include <algorithm>

#include "base/ceil_div.h"

namespace glint {
namespace {

constexpr std::size_t kMaxGraphs = 512;

// Tables of another executor may lie in the same memory, but in another order.
std::array<const void*, 3> places_of(const SeatTensors& seats) {
  return {seats.last.data, seats.lengths.data, seats.guesses.data};
}

// Whether graphs of `sequences` may have so many rows each.
bool holds(const GraphSizes& sizes, std::int64_t sequences, std::int64_t each) {
  return each == 1 || sequences * each <= sizes.most;
}

}  // namespace

std::vector<std::int64_t> to_list(const GraphSizes& sizes) {
  std::vector<std::int64_t> list = {sizes.pads, sizes.most};
  list.insert(list.end(), sizes.rows.begin(), sizes.rows.end());
  return list;
}

GraphSizes graph_sizes(std::span<const std::int64_t> list) {
  GraphSizes sizes;
  if (list.size() < 2) return sizes;
  sizes.pads = list[0] != 0, sizes.most = list[1];
  for (const std::int64_t rows : list.subspan(2)) {
    if (rows < 1 || rows > 1 << 20 || (!sizes.rows.empty() && rows <= sizes.rows.back())) break;
    sizes.rows.push_back(rows);
  }
  return sizes;
}

GraphSizes usual_graphs(std::int64_t most) {
  GraphSizes sizes;
  for (std::int64_t rows = 1;; rows += rows < 8 ? rows : rows < 64 ? 8 : 32) {
    sizes.rows.push_back(rows);
    if (rows >= most) return sizes;
  }
}

GraphSizes sizes_of(const GraphWishes& wishes, std::int64_t max_running, std::int64_t step_tokens) {
  GraphSizes sizes = {.rows = wishes.rows, .pads = wishes.pads, .most = step_tokens};
  const std::int64_t running = std::min(max_running, step_tokens);
  const std::int64_t most = std::min(wishes.most.value_or(running), running);
  if (sizes.rows.empty()) sizes.rows = usual_graphs(most).rows;
  std::vector<std::int64_t>& rows = sizes.rows;
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  // The first that no step fills holds the largest steps.
  const auto last = std::lower_bound(rows.begin(), rows.end(), most);
  if (last != rows.end()) rows.erase(last + (wishes.pads || *last == most ? 1 : 0), rows.end());
  if (wishes.eager) rows.clear();
  if (!rows.empty()) rows.back() = std::min(rows.back(), step_tokens);
  return sizes;
}

std::int64_t graph_pages(std::int64_t pages, std::int64_t index_topk, std::int64_t most) {
  std::int64_t size = std::max<std::int64_t>(1, index_topk / kPageSize);
  while (size < pages) size *= 4;
  return std::max(pages, std::min(size, most));
}

std::int64_t count_graphs(const GraphSizes& sizes, std::int64_t index_topk,
                          std::int64_t max_seq_len, int max_drafts) {
  const std::int64_t most = pages_of(max_seq_len);
  std::int64_t lengths = 0;
  for (std::int64_t pages = 1; pages <= most; ++lengths) {
    pages = graph_pages(pages, index_topk, most) + 1;
  }
  std::int64_t count = static_cast<std::int64_t>(sizes.rows.size());
  for (const std::int64_t sequences : sizes.rows) {
    count += max_drafts > 0 && holds(sizes, sequences, 1 + max_drafts);
  }
  return lengths * count;
}

// The graph with the fewest rows that holds the step of each replica. Rows lie one after another,
// so a graph of one row a sequence, and of more sequences, holds some drafts too.
std::optional<StepGraphs::Key> StepGraphs::key_of(const Model& m, const StepRows& rows,
                                                  const StepOptions& options) const {
  if (!options.graphs || options.taps || !can_record(m)) return {};
  std::int64_t count = 0, total = 0, end = 0;
  for (const StepRows& replica :
       options.replicas.empty() ? std::span(&rows, 1) : options.replicas) {
    count = std::max(count, std::ssize(replica.slices));
    total = std::max(total, std::ssize(replica.tokens));
    for (const RowSlice& slice : replica.slices) {
      if (slice.count != slice.logit_rows || slice.count > 1 + options.max_drafts) return {};
      end = std::max<std::int64_t>(end, slice.first + slice.count);
    }
  }
  if (count == 0) return {};
  std::optional<Key> best;
  for (const std::int64_t each : {std::int64_t{1}, std::int64_t{1} + options.max_drafts}) {
    const auto found = std::lower_bound(sizes_.rows.begin(), sizes_.rows.end(),
                                        std::max(count, ceil_div(total, each)));
    if (found == sizes_.rows.end() || (!sizes_.pads && *found != count)) continue;
    if (!holds(sizes_, *found, each) || (best && best->rows <= *found * each)) continue;
    best = Key{.sequences = *found, .rows = *found * each, .pages = pages_of(end)};
  }
  return best;
}

bool StepGraphs::fit(const Model& m, const StepRows& rows, const StepOptions& options) const {
  return key_of(m, rows, options).has_value();
}

std::vector<std::int64_t> StepGraphs::rows_of(const Model& m, std::span<const StepRows> replicas,
                                              const StepOptions& options) const {
  std::vector<std::int64_t> all;
  std::optional<Key> key;
  for (const StepRows& replica : replicas) {
    if (all.empty() || options.replicas.empty())
      key = key_of(m, replica, options);  // else all have it
    all.push_back(key ? key->rows : std::ssize(replica.tokens));
  }
  return all;
}

// Stages wait for each other, and ranks that share a sequence's rows have as many as it comes.
bool StepGraphs::can_record(const MeshShape& shape) { return shape.cp == 1 && shape.pp == 1; }

bool StepGraphs::can_record(const Device& device, const MeshShape& shape) {
  return !device.is_host() && can_record(shape);
}

bool StepGraphs::can_record(const Model& m) {
  return can_record(m.ops.device(), m.partition.shape) && m.mesh.tp->can_record() &&
         (m.mesh.ep->size() == 1 || m.mesh.ep->can_record_exchange());
}

ForwardArgs StepGraphs::run(const Model& m, const StepRows& rows, const Tensor& rope_table,
                            const StepOptions& options, Arena& arena) {
  const auto count = static_cast<std::int64_t>(rows.tokens.size());
  const std::int64_t positions = rope_table.dim(0);
  BatchArrays arrays = gather(rows, positions, options.seats.last.dim(0));
  Key key = *key_of(m, rows, options);
  key.pages = graph_pages(key.pages, m.config.index_topk, pages_of(positions));
  key.routed = options.routed;
  key.seats = places_of(options.seats);
  if (graphs_.size() >= kMaxGraphs && graphs_.count(key) == 0) clear();
  ForwardArgs results = run(m, key, std::move(arrays), rope_table, options, arena);
  results.hidden = results.hidden.slice(0, 0, count);
  results.logits = results.logits.slice(0, 0, count);
  return results;
}

void StepGraphs::record_all(const Model& m, const Tensor& rope_table, const StepOptions& options,
                            std::int64_t max_seq_len, Arena& arena) {
  const std::int64_t positions = rope_table.dim(0);
  const std::int64_t most = std::min(pages_of(max_seq_len), pages_of(positions));
  Key key = {.routed = options.routed, .seats = places_of(options.seats)};
  const auto record = [&](std::int64_t sequences, std::int64_t each) {
    if (!holds(sizes_, sequences, each)) return;
    key.sequences = sequences, key.rows = sequences * each;
    for (int time = 0; time < 2; ++time) {  // the first readies the device, and records nothing
      const Arena::Scope scope(arena);
      run(m, key, gather({}, positions, 0), rope_table, options, arena);
    }
  };
  for (std::int64_t pages = 1; pages <= most; pages = key.pages + 1) {
    key.pages = graph_pages(pages, m.config.index_topk, pages_of(positions));
    for (auto sequences = sizes_.rows.rbegin(); sequences != sizes_.rows.rend(); ++sequences) {
      if (options.max_drafts > 0) record(*sequences, 1 + options.max_drafts);
      record(*sequences, 1);
    }
  }
}

ForwardArgs StepGraphs::run(const Model& m, const Key& key, BatchArrays arrays,
                            const Tensor& rope_table, const StepOptions& options, Arena& arena) {
  arrays.fit(key.sequences, key.rows, key.pages);
  arrays.all_tokens = key.rows * m.partition.shape.dp;
  // The graph is of every step of its key. Keys are searched where there can be too many of them.
  const bool searches = key.pages * kPageSize > m.config.index_topk;
  arrays.end = searches ? BatchView().end : m.config.index_topk;
  const auto [found, is_new] = graphs_.try_emplace(key);
  Recorded& recorded = found->second;
  Device& device = m.ops.device();
  std::vector<CommCounters*> groups;
  for (Comm* const group : {m.mesh.tp, m.mesh.ep}) {
    CommCounters* const counters = group->counters();
    if (counters && std::count(groups.begin(), groups.end(), counters) == 0)
      groups.push_back(counters);
  }
  const auto totals = [&] {
    std::vector<CommCounters::Totals> all;
    for (const CommCounters* const counters : groups) all.push_back(counters->totals());
    return all;
  };
  const auto batch = [&] {
    return place(recorded.inputs, rope_table, options.seats, m.ops, arena);
  };
  if (!recorded.graph) recorded.inputs = take_inputs(arrays.sizes(), arena);
  copy_in(arrays, recorded.inputs, device);
  if (recorded.graph) {
    if (options.begun) *options.begun = device.record();
    recorded.graph->launch();
    arena.go_to(recorded.end);
    for (std::size_t i = 0; i < groups.size(); ++i)
      groups[i]->add_between(recorded.before[i], recorded.after[i]);
  } else if (is_new) {
    recorded.results = run_batch(m, batch(), options, arena);
  } else {
    recorded.before = totals();
    recorded.graph =
        device.capture([&] { recorded.results = run_batch(m, batch(), options, arena); });
    recorded.end = arena.mark();
    recorded.after = totals();
  }
  return recorded.results;
}

}  // namespace glint
