// ModelExecutor: runs plans through a model. A step is, in order: drafts of the sequences that want
// them, one forward pass over all slices, sampling of the rows at their ends, and the rows of the
// MTP layer for what is certain by then.
//
// It trusts what it knows of a sequence, its tokens and where it is, over what the plan says,
// because a plan may have been made before the steps in front of it ended (engine/executor.h).
#pragma once

#include <atomic>
#include <deque>

#include "engine/executor.h"
#include "runtime/drafter.h"
#include "runtime/grammar_masks.h"
#include "runtime/slice_run.h"

namespace glint {

struct ModelExecutorOptions {
  int max_drafts = 0;         // above 0 the model must have its MTP layer
  TokenId num_token_ids = 0;  // ids from here on are padding and never come; 0: all are tokens
};

class ModelExecutor final : public Executor {
 public:
  // `model` outlives the executor, and has its pages reserved.
  ModelExecutor(LoadedModel& model, const ModelExecutorOptions& options);
  ~ModelExecutor() override;

  const ExecutorInfo& info() const override { return info_; }
  StepResult execute(const StepPlan& plan) override;
  Status control(const ExecutorCommand& command) override;
  void set_wake(Wake wake) override { masks_.set_listener(std::move(wake)); }
  std::string progress() const override;
  std::vector<std::uint64_t> expert_load() const override;

 private:
  void end_and_start_sequences(const StepPlan& plan);
  std::vector<SliceRun> locate(const StepPlan& plan, StepResult& result);
  void draft(std::span<SliceRun> runs);
  void start_masks(std::span<SliceRun> runs);
  void await_masks(std::span<SliceRun> runs, double forward_seconds);
  StepPlan make_step(std::uint64_t step, std::span<SliceRun> runs) const;
  void sample(std::span<SliceRun> runs, const StepOutput& out);
  void run_draft_rows(std::span<SliceRun> runs, const Tensor& hidden);
  void tell_logprobs(std::span<SliceRun> runs, const Tensor& logits);
  void tell_prompt_logprobs(SliceRun& run, const Tensor& hidden);
  std::vector<TokenLogprob> logprobs_of(const Tensor& logits, const std::vector<std::int32_t>& rows,
                                        const std::vector<std::int32_t>& ids, int num_top);
  void tell_routed(std::span<SliceRun> runs, std::span<const std::int32_t> routed);

  LoadedModel& model_;
  ModelExecutorOptions options_;
  ExecutorInfo info_;
  std::unordered_map<RequestId, SequenceState> sequences_;
  Drafter drafter_;
  GrammarMasks masks_;
  std::deque<std::atomic<std::uint64_t>> expert_load_;
  std::string profile_path_;
};

}  // namespace glint
