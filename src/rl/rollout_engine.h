// RolloutEngine: who answers in rollouts: the engine in this process (EngineHere), or servers
// (cli/external_engines.h). Both give the same tokens and log-probabilities, bit for bit.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/request.h"
#include "runtime/loaded_model.h"

namespace glint {

// The requests of one call of run_rollouts(), all of which it submits.
struct RolloutSize {
  int longest = 0;   // tokens of a prompt and its answer
  int running = 1;   // answers at once
  int requests = 1;  // that are alive at once
  int num_drafts = 0;
  TokenId num_token_ids = 0;
};

class RolloutSession {
 public:
  // False: nothing more is wanted.
  using OnEvents = std::function<Result<bool>(std::vector<TokenEvent> events)>;

  virtual ~RolloutSession() = default;
  // Before run(), and from within on_events.
  virtual Status submit(Request request) = 0;
  // The request gets a last event, kCancelled, unless it has ended.
  virtual void abort(RequestId id) = 0;
  // Tells what happens, on this thread, until `on_events` fails or wants no more; now and then that
  // nothing does. Once.
  virtual Status run(const OnEvents& on_events) = 0;
};

class RolloutEngine {
 public:
  virtual ~RolloutEngine() = default;
  virtual const ModelConfig& config() const = 0;
  // A session at a time; nothing of other weights than the engine has is read in it.
  virtual Result<std::unique_ptr<RolloutSession>> begin(const RolloutSize& size) = 0;
};

// Starts each session with an empty cache, whose pages it reserves, on each replica for its part of
// the answers.
class EngineHere final : public RolloutEngine {
 public:
  // `model` outlives this.
  explicit EngineHere(LoadedModel& model) : model_(model) {}

  const ModelConfig& config() const override { return model_.config(); }
  Result<std::unique_ptr<RolloutSession>> begin(const RolloutSize& size) override;

 private:
  LoadedModel& model_;
};

}  // namespace glint
