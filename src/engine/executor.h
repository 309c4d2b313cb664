// Executor: where the world of integers ends. It runs plans, keeps what sampling needs to know of
// each sequence (its tokens, drafts, grammar), and changes weights between steps. ModelExecutor
// (runtime) runs the model; FakeExecutor (engine) scripts tokens for tests.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/step_plan.h"

namespace glint {

struct ExecutorInfo {
  int vocab_size = 0;
  int max_seq_len = 0;  // positions that the model has
  int max_drafts = 0;   // 0: it cannot speculate
  int num_layers = 0, num_moe_layers = 0, num_experts = 0, num_experts_per_tok = 0;
  std::vector<int> moe_layers = {};  // their indices in the model
  int depth = 1;                     // steps that it takes before the first of them is collected
  int num_replicas = 1;              // each with pages of its own
  // Stages that work on different steps at the same time. With more than one, no slice has a
  // pending token of a step that is not collected.
  int num_stages = 1;
  bool tells_keys = true;  // Extras::selected_keys
};

struct ExecutorCommand {
  enum class Kind { kUpdateWeights, kStartProfile, kStopProfile, kRecover };  // of lost ranks
  Kind kind = Kind::kUpdateWeights;
  std::string path = {};  // of a checkpoint, or where the profile goes
};

// Where the experts lie that move between ranks (EPLB), and how even that is.
struct ExpertPlaces {
  int num_ranks = 1;
  std::vector<std::vector<std::int32_t>> slots = {};  // of each MoE layer: the expert in each slot
  std::uint64_t looks = 0, moved_layers = 0, moved_experts = 0;  // since the start
  // Rows of the busiest rank over the mean, over layers: at the last look, of the rows since the
  // one before, where the experts lay then, and where they have been moved to.
  double imbalance_before = 1, imbalance_after = 1;
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual const ExecutorInfo& info() const = 0;

  // Takes the next plan; returns while its step may still run. Plans come in order, always from the
  // same thread, and at most info().depth of them are not collected. A slice's pending tokens are
  // those of its sequence's earlier steps, and where such a step accepted fewer drafts than
  // planned, the executor moves the slice to where the sequence really is (`first` is then an upper
  // bound). A slice whose `first` lies before what its sequence has run, with known tokens, begins
  // again there: the sequence was preempted, or found a cached prefix. When it is collected, every
  // cache (the draft layer's as well) holds the rows of all accepted tokens but the last. Slices
  // of sequences that have ended meanwhile may still come, until `ended` names them.
  virtual void launch(std::shared_ptr<const StepPlan> plan) = 0;

  // Waits for the oldest step that is not collected. A failure, such as a rank that died, takes all
  // steps launched so far with it, and recover() is called next.
  virtual Result<StepResult> collect() = 0;

  // Makes it ready for plans again after a failure. It knows the same sequences, with the tokens of
  // the steps that were collected; what the caches held is gone. Names of requests that started or
  // ended in lost steps come again. Fails if there is nothing to go on with.
  virtual Status recover() = 0;

  // Tells, from any thread, that a slice which was late can go on: its request, and the number that
  // StepResult::Sampled::late had or will have. Empty: nobody listens any more.
  using Wake = std::function<void(RequestId, std::uint64_t number)>;
  virtual void set_wake(Wake) {}

  // While no step is launched, from the thread of launch().
  virtual Status control(const ExecutorCommand& command) = 0;

  // The work in progress, for the watchdog: "layer 3: moe, 512 tokens". From any thread.
  virtual std::string progress() const = 0;

  // False while it recovers from a failure. From any thread.
  virtual bool ready() const { return true; }

  // Tokens that each expert got since the start: [num_moe_layers, num_experts]. From any thread.
  virtual std::vector<std::uint64_t> expert_load() const { return {}; }
  // None where experts stay. From any thread.
  virtual std::optional<ExpertPlaces> expert_places() const { return std::nullopt; }
};

// One step, from its plan to its result.
inline Result<StepResult> execute(Executor& executor, StepPlan plan) {
  executor.launch(std::make_shared<const StepPlan>(std::move(plan)));
  return executor.collect();
}

}  // namespace glint
