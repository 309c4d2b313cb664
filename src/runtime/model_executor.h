// ModelExecutor: runs plans through a model. A step is, in order: drafts of the sequences that want
// them, one forward pass over all slices, sampling of the rows at their ends, and the rows of the
// MTP layer for what is certain by then.
//
// On a device that works beside the host, a step may be launched while the one before it runs: its
// rows take the tokens that the host has not seen from the table of last tokens, by seat. Where a
// request's rules read its whole answer (its grammar, its bad words) the forward pass is launched
// first, and then the host waits for the step before: it looks at that one's tokens while the pass
// runs, and launches the sampling. Drafts are made, verified and counted on the device
// (seat_drafter.h); where such a request has any, the host reads them first. A step whose end the
// host must look at (attended positions, drafts that several ranks make) is waited for in launch().
//
// Where the model has stages, the first of which is here, launch() runs that one, and what follows
// (sampling, log-probabilities) comes when the step is collected, while later stages run others.
//
// It trusts what it knows of a sequence, its tokens and where it is, over what the plan says,
// because a plan may have been made before the steps in front of it ended (engine/executor.h).
#pragma once

#include <atomic>
#include <deque>
#include <unordered_map>

#include "engine/executor.h"
#include "runtime/drafter.h"
#include "runtime/expert_balancer.h"
#include "runtime/grammar_masks.h"
#include "runtime/launched_step.h"
#include "runtime/seat_drafter.h"
#include "runtime/seat_table.h"

namespace glint {

struct ModelExecutorOptions {
  int max_drafts = 0;         // above 0 the model must have its MTP layer
  TokenId num_token_ids = 0;  // ids from here on are padding and never come; 0: all are tokens
  int max_running = 256;      // sequences at once, above which memory of theirs moves
  bool times_gaps = false;
  int balance_steps = 1000;  // between looks at the load of experts that may move; 0: none
};

class ModelExecutor final : public Executor {
 public:
  // `model` outlives the executor, and has its pages reserved.
  ModelExecutor(LoadedModel& model, const ModelExecutorOptions& options);
  ~ModelExecutor() override;

  const ExecutorInfo& info() const override { return info_; }
  void launch(std::shared_ptr<const StepPlan> plan) override;
  Result<StepResult> collect() override;
  Status recover() override;
  Status control(const ExecutorCommand& command) override;
  void set_wake(Wake wake) override { masks_.set_listener(std::move(wake)); }
  std::string progress() const override;
  bool ready() const override { return !failed_ && model_.ranks_state().ok(); }
  std::vector<std::uint64_t> expert_load() const override { return routed_.load(); }
  std::optional<ExpertPlaces> expert_places() const override;

  // Records the graphs of decode steps. Before the first step.
  GraphStats record_graphs(std::int64_t max_seq_len);
  // With times_gaps, of each decode step that was a graph: seconds that the device waited, from the
  // last op of the one before to the first of its own, and before its sampling. Not while steps
  // run.
  std::span<const double> gaps() const { return gaps_; }

 private:
  void start_sequences(const StepPlan& plan);
  void end_sequences(const StepPlan& plan);
  std::vector<SliceRun> locate(const StepPlan& plan, StepResult& result);
  bool needs_tokens(const StepPlan& plan) const;
  void draft(std::span<SliceRun> runs);
  void draft_ahead(std::span<SliceRun> runs);
  void start_masks(std::span<SliceRun> runs);
  void await_masks(std::span<SliceRun> runs, double forward_seconds);
  StepOptions step_options() const;
  std::vector<StepRows> make_rows(std::uint64_t step, std::span<SliceRun> runs) const;
  void run(LaunchedStep& step);
  void begin(LaunchedStep& step, std::span<const StepRows> rows);
  void end(LaunchedStep& step, const StepOutput& out,
           std::chrono::steady_clock::time_point forward_start);
  void end_begun(std::size_t count);
  Tensor sample(LaunchedStep& step, const Tensor& logits);
  bool come_to_nothing(LaunchedStep& step);
  void take_back(LaunchedStep& step);
  void read_launched();
  void read(LaunchedStep& step);
  void run_draft_rows(std::span<SliceRun> runs);
  void balance_experts();

  LoadedModel& model_;
  const ModelExecutorOptions options_;
  ExecutorInfo info_;
  std::unordered_map<RequestId, std::shared_ptr<SequenceState>> sequences_;
  SeatTable seats_;
  std::deque<LaunchedStep> launched_;  // oldest first
  std::vector<LaunchedStep> spare_;    // their memory is used again
  std::chrono::steady_clock::time_point last_collected_ = {};
  Event last_computed_;  // of the step that was read last, if it was a graph
  std::vector<double> gaps_;
  Drafter drafter_;
  std::optional<SeatDrafter> seat_drafter_;  // instead, on one rank
  Logprobs logprobs_;
  GrammarMasks masks_;
  RoutedExperts routed_;
  std::optional<ExpertBalancer> balancer_;  // where experts move
  std::string profile_path_;
  std::atomic<bool> failed_ = false;  // until it has recovered
};

}  // namespace glint
