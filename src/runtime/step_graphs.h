// StepGraphs: decode steps recorded once and repeated, where the device does that: the host asks
// for one thing instead of for every op of every layer.
//
// A graph is of a number of sequences, of rows for each (one, or with drafts the most there are)
// and of pages, to which steps are padded (BatchView), on fixed memory: that of the pass before, so
// nothing but the graphs themselves takes memory.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/counting_comm.h"
#include "engine/graph_wishes.h"
#include "runtime/step.h"

namespace glint {

// How many sequences graphs have, with a row each if there are no drafts. A step takes the one of
// the fewest rows that holds it, and none if there is none.
struct GraphSizes {
  std::vector<std::int64_t> rows = {};  // ascending
  bool pads = true;                     // false: a step has exactly so many, or no graph
  std::int64_t most = 1 << 30;          // rows with drafts
};

// GraphSizes as a flat list, and back; the list ends at the first entry that can be no size.
std::vector<std::int64_t> to_list(const GraphSizes& sizes);
GraphSizes graph_sizes(std::span<const std::int64_t> list);

// Few sizes, up to `most` rows, and never a quarter more rows than there are beyond the first.
GraphSizes usual_graphs(std::int64_t most);
// The sizes of a server in which at most `max_running` sequences run, in steps of at most
// `step_tokens` rows: no graph has more, for memory is planned for such steps.
GraphSizes sizes_of(const GraphWishes& wishes, std::int64_t max_running, std::int64_t step_tokens);

// The pages of each sequence in a graph: the first size that holds `pages`, at most `most`. Four
// times as many from one size to the next, beginning with those that are not searched for keys.
std::int64_t graph_pages(std::int64_t pages, std::int64_t index_topk, std::int64_t most);

// Graphs of all sizes for sequences of up to `max_seq_len` tokens, with up to `max_drafts` drafts.
std::int64_t count_graphs(const GraphSizes& sizes, std::int64_t index_topk,
                          std::int64_t max_seq_len, int max_drafts = 0);

class StepGraphs {
 public:
  void use(GraphSizes sizes) { clear(), sizes_ = std::move(sizes); }
  const GraphSizes& sizes() const { return sizes_; }

  // Whether the model's device and groups repeat a whole pass at once; and whether those of a
  // layout may, on a device that is not the host.
  static bool can_record(const Model& model);
  static bool can_record(const Device& device, const MeshShape& shape);
  static bool can_record(const MeshShape& shape);
  // Whether a step can be one: a row of each sequence, or with its drafts, and their logits, which
  // nobody taps.
  bool fit(const Model& model, const StepRows& rows, const StepOptions& options) const;
  // The rows that each replica's pass has, with a graph's padding.
  std::vector<std::int64_t> rows_of(const Model& model, std::span<const StepRows> replicas,
                                    const StepOptions& options) const;

  // Runs the step, and from the second of its size on from a graph. `arena` is as it was in all
  // calls before. Results lie in its present scope; those of experts are [MoE layers * padded rows,
  // k], with ids of -1 in padding.
  ForwardArgs run(const Model& model, const StepRows& rows, const Tensor& rope_table,
                  const StepOptions& options, Arena& arena);

  // Records the graphs of all sizes, of steps that are padding alone.
  void record_all(const Model& model, const Tensor& rope_table, const StepOptions& options,
                  std::int64_t max_seq_len, Arena& arena);

  // Forgets all: caches or weights lie elsewhere.
  void clear() { graphs_.clear(); }
  std::size_t size() const { return graphs_.size(); }

 private:
  struct Key {
    std::int64_t sequences = 0, rows = 0, pages = 0;
    bool routed = false;
    std::array<const void*, 3> seats = {};  // what a graph reads of them
    auto operator<=>(const Key&) const = default;
  };
  struct Recorded {
    BatchInputs inputs = {};
    ForwardArgs results = {};
    Arena::Mark end = {};                                       // of the memory that it takes
    std::vector<CommCounters::Totals> before = {}, after = {};  // collectives of it, by group
    std::unique_ptr<Graph> graph = {};  // null: it ran once, and the arena has grown
  };
  // The sequences, rows and pages of the graph of `rows`; none: such a step has no graph.
  std::optional<Key> key_of(const Model& model, const StepRows& rows,
                            const StepOptions& options) const;
  ForwardArgs run(const Model& model, const Key& key, BatchArrays arrays, const Tensor& rope_table,
                  const StepOptions& options, Arena& arena);

  GraphSizes sizes_ = usual_graphs(512);
  std::map<Key, Recorded> graphs_;
};

}  // namespace glint
