// StepGraphs: decode steps recorded once and repeated, where the device does that: the host asks
// for one thing instead of for every op of every layer.
//
// A graph is of a number of rows and of pages, to which steps are padded (BatchView), on fixed
// memory: that of the pass before, so nothing but the graphs themselves takes memory.
#pragma once

#include <map>
#include <memory>

#include "runtime/step.h"

namespace glint {

class StepGraphs {
 public:
  // Whether a step can be one: a row and its logits of each sequence, which nobody taps, on one
  // rank.
  static bool fit(const Model& model, const StepRows& rows, const StepOptions& options);

  // Runs the step, and from the second of its size on from a graph. `arena` is as it was in all
  // calls before. Results lie in its present scope; those of experts are [MoE layers * padded rows,
  // k], with ids of -1 in padding.
  ForwardArgs run(const Model& model, const StepRows& rows, const Tensor& rope_table,
                  const StepOptions& options, Arena& arena);

  // Forgets all: caches or weights lie elsewhere.
  void clear() { graphs_.clear(); }
  std::size_t size() const { return graphs_.size(); }

 private:
  struct Key {
    std::int64_t rows = 0, pages = 0;
    bool scores_keys = false, routed = false;
    const void* last_tokens = nullptr;
    auto operator<=>(const Key&) const = default;
  };
  struct Recorded {
    BatchInputs inputs = {};
    ForwardArgs results = {};
    std::unique_ptr<Graph> graph = {};  // null: it ran once, and the arena has grown
  };
  std::map<Key, Recorded> graphs_;
};

}  // namespace glint
