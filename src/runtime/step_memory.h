// The memory that steps need besides weights and caches: planned (step_trial.h) or taken.
#pragma once

#include <algorithm>
#include <cstdint>

namespace glint {

// The largest steps of an executor.
struct StepLimits {
  int max_step_tokens = 0;
  int max_running = 0;
  int max_drafts = 0;    // above 0: with the MTP layer
  int max_logprobs = 0;  // of the most likely tokens, beside the row's own
  std::int64_t max_seq_len = 0;
  bool all_logits = false;      // of every row, and they are read as they are
  std::int64_t num_graphs = 0;  // of decode steps (step_graphs.h)
};

// Bytes.
struct StepMemory {
  std::int64_t step = 0;     // arena of passes, their results included
  std::int64_t draft = 0;    // of the MTP layer's
  std::int64_t head = 0;     // of logits by themselves
  std::int64_t edits = 0;    // of logits that a request's own rules change
  std::int64_t moves = 0;    // of experts on their way between ranks
  std::int64_t seats = 0;    // of seat_table.h and routed_experts.h
  std::int64_t scratch = 0;  // of the backend's own
  std::int64_t graphs = 0;   // of recorded steps, beside what they compute on
  // Results of a step that other stages work on, and of how many at once: on the first rank.
  std::int64_t result = 0, num_results = 0;
  StepLimits limits = {};  // that it was planned for

  std::int64_t results() const { return num_results * result; }
  std::int64_t total() const {
    return step + draft + head + edits + moves + seats + scratch + graphs + results();
  }
};

// Enough for either of two ranks, within the same limits.
inline StepMemory larger(const StepMemory& a, const StepMemory& b) {
  return {.step = std::max(a.step, b.step),
          .draft = std::max(a.draft, b.draft),
          .head = std::max(a.head, b.head),
          .edits = std::max(a.edits, b.edits),
          .moves = std::max(a.moves, b.moves),
          .seats = std::max(a.seats, b.seats),
          .scratch = std::max(a.scratch, b.scratch),
          .graphs = std::max(a.graphs, b.graphs),
          .result = std::max(a.result, b.result),
          .num_results = std::max(a.num_results, b.num_results),
          .limits = b.limits};
}

}  // namespace glint
