// RankCommand: what the leader of a group of ranks runs, as the others hear it. Flat, and about
// numbers only: they run the same layers on it, meet the leader in their collectives, and know of
// no request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/step_memory.h"
#include "runtime/step_rows.h"

namespace glint {

struct RankCommand {
  enum class Kind : std::uint8_t {
    kStep,           // `replicas`, `routed`, `graph`
    kDraft,          // `replicas`, `selection`, and hidden states
    kHead,           // hidden states of `replica`
    kReservePages,   // `num_pages`, `max_seq_len`
    kReserveSteps,   // `memory`
    kUpdateWeights,  // of the checkpoint in folder `path`
    kMoveExperts,    // of `layer`, to `slots`
    kRecordGraphs,   // `graph_sizes`, `graph_drafts`, `max_seq_len`, `routed`
  };
  static constexpr int kNumKinds = static_cast<int>(Kind::kRecordGraphs) + 1;

  Kind kind = Kind::kStep;
  std::vector<StepRows> replicas = {};  // the rows of each
  std::uint8_t routed = 0;              // not 0: the leader asks for the chosen experts
  std::uint8_t graph = 0;               // not 0: a step that graphs may hold, with these drafts
  std::int32_t graph_drafts = 0;
  std::vector<std::int64_t> graph_sizes = {};  // to_list() of GraphSizes (step_graphs.h)
  std::int64_t max_seq_len = 0;
  std::int32_t replica = 0;
  // Values of the rows of all replicas, one after another:
  std::vector<std::int32_t> selection = {};
  // Hidden states: rows of those that the last step left on each replica; or bytes of them.
  std::vector<std::int32_t> hidden_rows = {};
  std::vector<std::byte> hidden = {};
  std::int32_t num_pages = 0;
  StepMemory memory = {};
  std::string path = {};
  std::vector<std::int32_t> slots = {};  // ExpertSlots
  std::int32_t layer = 0;
};

// The ranks that run each command with the leader's model.
class Followers {
 public:
  virtual ~Followers() = default;
  // All run `command` next; returns before they have.
  virtual void start(RankCommand command) = 0;
  // Waits until all have run what was started; the first failure since the last call.
  virtual Status finish() = 0;
  // Whether they had the leader's weights when they answered last.
  virtual bool have_leaders_weights() const = 0;
  // Fails once a follower is lost: from then on commands come to nothing.
  virtual Status state() const = 0;
  // All are lost, for this reason.
  virtual void lose(const std::string& why) = 0;
  // New followers for those that are lost, as they were before their first command, with the
  // memory, the weights and the graphs that they had. The leader does its part of making these by
  // `beside`.
  virtual Status restart(const std::function<Status()>& beside) = 0;
};

}  // namespace glint
