// Executor: where the world of integers ends. It runs plans, keeps what sampling needs to know of
// each sequence (its tokens, drafts, grammar), and changes weights between steps. ModelExecutor
// (runtime) runs the model; FakeExecutor (engine) scripts tokens for tests.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/step_plan.h"

namespace glint {

struct ExecutorInfo {
  int vocab_size = 0;
  int max_seq_len = 0;  // positions that the model has
  int max_drafts = 0;   // 0: it cannot speculate
  int num_moe_layers = 0, num_experts = 0, num_experts_per_tok = 0;
  std::vector<int> moe_layers = {};  // their indices in the model
};

struct ExecutorCommand {
  enum class Kind { kUpdateWeights, kStartProfile, kStopProfile };
  Kind kind = Kind::kUpdateWeights;
  std::string path = {};  // of a checkpoint, or where the profile goes
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual const ExecutorInfo& info() const = 0;

  // Runs one plan; plans come in order, one at a time, always from the same thread. A slice's
  // pending tokens are those of its sequence's earlier steps, and where such a step accepted fewer
  // drafts than planned, the executor moves the slice to where the sequence really is (`first` is
  // then an upper bound). A slice whose `first` lies before what its sequence has run, with known
  // tokens, begins again there: the sequence was preempted, or found a cached prefix. When it
  // returns, every cache (the draft layer's as well) holds the rows of all accepted tokens but the
  // last. Slices of sequences that have ended meanwhile may still come, until `ended` names them.
  virtual StepResult execute(const StepPlan& plan) = 0;

  // Tells, from any thread, that a slice which was late can go on: its request, and the number that
  // StepResult::Sampled::late had or will have. Empty: nobody listens any more.
  using Wake = std::function<void(RequestId, std::uint64_t number)>;
  virtual void set_wake(Wake) {}

  // Between steps, from the thread of execute().
  virtual Status control(const ExecutorCommand& command) = 0;

  // The work in progress, for the watchdog: "layer 3: moe, 512 tokens". From any thread.
  virtual std::string progress() const = 0;

  // Tokens that each expert got since the start: [num_moe_layers, num_experts]. From any thread.
  virtual std::vector<std::uint64_t> expert_load() const { return {}; }
};

}  // namespace glint
