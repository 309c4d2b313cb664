// FakeExecutor: an executor without a model, for tests of the engine and the server.
//
// Its "model" makes the next token a hash of all tokens before, which it reads from a fake KV
// memory through the page tables of the plans, as a real model does. So any mistake in scheduling,
// sharing, preemption or rollback changes the answer; and before each slice it checks that every
// position that the slice attends to holds the row of the right prefix (an abort says which).
//
// Each replica has a memory of its own: a slice that runs on another than its pages lie on finds
// other rows.
//
// A script replaces the hash: then a request's answer is a given list of tokens.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/executor.h"

namespace glint {

struct FakeExecutorOptions {
  ExecutorInfo info = {.vocab_size = 1000, .max_seq_len = 1 << 20};
  int num_pages = 256, page_size = 64;  // of each replica
  bool check_rows = true;               // false: costs nothing, for benchmarks

  // The whole answer; after its end, the request's first stop id (0 if it has none). Empty: hashes.
  std::function<std::vector<TokenId>(const Request&)> script = {};
  // Whether the draft for this position of the sequence is right. Empty: always.
  std::function<bool(RequestId, int position)> draft_is_right = {};
  // Whether the step that runs this position finds logits that are not numbers. Empty: never.
  std::function<bool(RequestId, int position)> fails = {};

  // Whether this step fails (Executor::collect). Empty: never.
  std::function<bool(std::uint64_t step)> step_fails = {};
  bool recovers = true;  // from that

  // Whether what may come at this position is not known yet when it is sampled; asked again each
  // time. Empty: never.
  std::function<bool(RequestId, int position)> late = {};

  // Seconds that a step reports, the sum of these; it is there so long after launch if `sleep`, or
  // after the one before it.
  double step_seconds = 0, decode_row_seconds = 0, prompt_row_seconds = 0;
  bool sleep = false;
};

class FakeExecutor : public Executor {
 public:
  explicit FakeExecutor(FakeExecutorOptions options);
  ~FakeExecutor() override;

  const ExecutorInfo& info() const override;
  // Tokens are chosen when a step is collected.
  void launch(std::shared_ptr<const StepPlan> plan) override;
  Result<StepResult> collect() override;
  Status recover() override;
  // Fails if the path is empty. New weights are another hash: what was cached before is wrong.
  Status control(const ExecutorCommand& command) override;
  void set_wake(Wake wake) override;
  std::string progress() const override;
  std::vector<std::uint64_t> expert_load() const override;

  // The answer that `request` must get, whatever else runs.
  std::vector<TokenId> answer_alone(const Request& request) const;

  // From any thread. The step that runs now, or the next one, hangs until resume().
  void hang();
  void resume();

  int num_launched() const;  // steps that are not collected
  int num_known() const;     // requests that it has not forgotten; between steps
  std::uint64_t steps() const { return steps_.load(); }
  std::uint64_t rows() const { return rows_.load(); }  // that ran: what scheduling wastes shows
  std::vector<ExecutorCommand> commands() const;       // taken so far; between steps

 protected:
  virtual StepResult execute(const StepPlan& plan);

 private:
  struct State;
  std::unique_ptr<State> state_;
  Wake wake_;  // told before the step that was late returns
  std::atomic<bool> hanging_{false};
  std::atomic<std::uint64_t> steps_{0}, rows_{0};
};

}  // namespace glint
