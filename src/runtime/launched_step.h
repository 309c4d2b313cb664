// LaunchedStep: a step between launch and collect, and the memory through which its results reach
// the host.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "runtime/logprobs.h"
#include "runtime/readback.h"
#include "runtime/routed_experts.h"
#include "runtime/slice_run.h"

namespace glint {

struct LaunchedStep {
  std::shared_ptr<const StepPlan> plan = {};
  std::chrono::steady_clock::time_point begin = {};
  std::vector<SliceRun> runs = {};
  StepResult result = {};
  Readback tokens = {};  // drawn, a row each
  Readback drafts = {};  // that rows ran, where only the device knew them
  bool reads_drafts = false;
  AskedRoutes routes = {};
  std::vector<int> replica_rows = {};  // T of each
  AskedLogprobs logprobs = {};
  AskedLogprobs prompt_logprobs = {};
  std::vector<int> told_prompt_tokens = {};  // of each run, before this step's
  Event begun = {};                          // a graph's inputs are there; none where it is none
  Event passed = {};                         // with times_gaps: logits are there
  Event drawing = {};                        // and sampling begins
  Event computed = {};                       // the last op has run
  Event done = {};                           // all that is read back is there
  bool is_begun = false;                     // later stages still run it
  bool is_unread = false;
  std::optional<Error> failure = {};  // it came to nothing
};

}  // namespace glint
